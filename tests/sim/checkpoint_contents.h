#pragma once

// The content of checkpoints, to compare what jobs with other slices have saved.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {

// Returns the job of wide_and_deep.json with keys (`dynamic` of a table's config) in the first
// tables instead of a number of rows.
inline std::string WithKeys(std::string job, const std::string& dynamic, int tables) {
  for (int table = 1; table <= tables; ++table) {
    const std::string name = absl::StrCat(R"("table_C)", table, R"(", )");
    job = absl::StrReplaceAll(
        job, {{absl::StrCat(name, R"("input_dim": 1000)"), absl::StrCat(name, dynamic)}});
  }
  return job;
}

// The files of a directory, by name.
using Files = std::map<std::string, std::string>;

inline Files FilesIn(FileSystem& disk, const std::string& directory) {
  Files files;
  const auto names = disk.List(directory);
  EXPECT_TRUE(names.ok()) << names.status();
  for (size_t i = 0; names.ok() && i < names->size(); ++i) {
    files[(*names)[i]] = *ReadFile(disk, JoinPath(directory, (*names)[i]));
  }
  return files;
}

inline void PutFiles(const Files& files, FileSystem& disk, const std::string& directory) {
  EXPECT_TRUE(disk.MakeDirectories(directory).ok());
  for (const auto& [name, bytes] : files) {
    EXPECT_TRUE(WriteFileAtomically(disk, JoinPath(directory, name), bytes).ok());
  }
}

// Adds a part of a dynamic table, by its keys: values, slots and how often each row was pushed.
inline void AddTableRows(const BundleReader& reader, const std::string& keys_name,
                         std::map<std::string, std::string>& contents) {
  const std::string part = keys_name.substr(0, keys_name.size() - 4);
  const std::string table = part.substr(0, part.find(kTableRowsInfix));
  const Tensor keys = *reader.Read(keys_name);
  for (const auto& [name, tensor] : reader.tensors()) {
    if (!absl::StartsWith(name, part) || name == keys_name) continue;
    const Tensor value = *reader.Read(name);
    for (int64_t i = 0; i < keys.num_elements(); ++i) {
      const std::string row =
          absl::StrCat(table, " key ", keys.data<int64_t>()[i], " ", name.substr(part.size()));
      Tensor one = value.Rows(i, 1);
      // Beside it is the time since the last push.
      if (absl::EndsWith(name, "/uses")) one = one.Reshaped(Shape{2}).Rows(1, 1);
      contents[row].append(reinterpret_cast<const char*>(one.raw()), one.num_bytes());
    }
  }
}

// Returns variables and slots of the latest checkpoint in these files, whole as TensorFlow reads
// them, and the rows of dynamic tables.
inline std::map<std::string, std::string> ContentsOf(const Files& files) {
  MemoryFileSystem disk;
  PutFiles(files, disk, "/all");
  std::map<std::string, std::string> contents;
  const auto prefix = FindCheckpoint(disk, "/all", "latest");
  EXPECT_TRUE(prefix.ok()) << prefix.status();
  if (!prefix.ok()) return contents;
  const auto reader = BundleReader::Open(disk, *prefix);
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (!reader.ok()) return contents;
  for (const auto& [name, tensor] : (*reader)->tensors()) {
    if (absl::EndsWith(name, "/keys")) AddTableRows(**reader, name, contents);
    if (absl::StrContains(name, "/.COHORT_")) continue;  // those are of slices
    const Tensor value = *(*reader)->Read(name);
    contents[name] = absl::StrCat(value.TypeString(), ":");
    contents[name].append(reinterpret_cast<const char*>(value.raw()), value.num_bytes());
  }
  return contents;
}

inline void ExpectSameCheckpoint(const Files& files, const Files& expected) {
  const auto contents = ContentsOf(files);
  const auto wanted = ContentsOf(expected);
  ASSERT_EQ(contents.size(), wanted.size());
  for (const auto& [name, bytes] : wanted) {
    ASSERT_EQ(contents.count(name), 1u) << name;
    EXPECT_TRUE(contents.at(name) == bytes) << name << " has other bits";
  }
}

}  // namespace cohort
