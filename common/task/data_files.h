#pragma once

// Error text about data files that differ between workers. A job names the files of a data set by
// paths, and each worker reads these paths on its own. So the same path may lead to different
// files: in different directories, on different machines, or at different times.

#include <string>

#include "proto/data.pb.h"

namespace cohort {

// The files of one data set as one reader has found them, in the order of the data set's paths in
// the job.
struct FilesOfReader {
  std::string reader;  // who has read the files: "worker:1"
  const google::protobuf::RepeatedPtrField<proto::DataFile>& files;
};

// Describes the first file that differs between two readers of the same paths, as "; the first file
// that differs: worker:0 read /a/x.idx (328 bytes, checksum 26275168), and worker:1 /b/x.idx (…)".
// Returns "" if no file is known to differ.
std::string FirstDifference(const FilesOfReader& one, const FilesOfReader& other);

}  // namespace cohort
