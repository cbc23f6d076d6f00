#pragma once

// Words for data files that differ. Data sets are named in the job by paths that each worker reads
// on its own, so the same name may lead to different files: in different directories, on different
// machines, or at different times.

#include <string>

#include "proto/data.pb.h"

namespace cohort {

// The files of one data set as one reader has found them, in the order of the data set's paths.
struct FilesOfReader {
  std::string reader;  // who has read the files: "worker:1"
  const google::protobuf::RepeatedPtrField<proto::DataFile>& files;
};

// Returns the first file that differs between the two readers as "; the first file that differs:
// worker:0 read /a/x.idx (328 bytes, checksum 26275168), and worker:1 /b/x.idx (…)". Returns "" if
// no file is known to differ. `one` and `other` have read the same paths of a job.
std::string FirstDifference(const FilesOfReader& one, const FilesOfReader& other);

}  // namespace cohort
