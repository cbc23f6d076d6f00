#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"

namespace cohort {

inline std::string DeployPath(const std::string& name) {
  return absl::StrCat(COHORT_SOURCE_DIR, "/deploy/", name);
}

inline std::string ReadDeployFile(const std::string& name) {
  PosixFileSystem files;
  const auto text = ReadFile(files, DeployPath(name));
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

struct Output {
  int exit_code = -1;
  std::string text;  // stdout and stderr
};

inline Output RunCommand(const std::string& command) {
  Output output;
  FILE* const pipe = popen(absl::StrCat("( ", command, " ) 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  char piece[4096];
  while (const size_t count = fread(piece, 1, sizeof(piece), pipe))
    output.text.append(piece, count);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
  return output;
}

inline bool HasProgram(const std::string& name) {
  return RunCommand(absl::StrCat("command -v ", name)).exit_code == 0;
}

}  // namespace cohort
