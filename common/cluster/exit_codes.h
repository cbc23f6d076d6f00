#pragma once

// Exit codes of Cohort's programs. The numbers are an interface: scripts and Kubernetes policies
// read them.

namespace cohort {

enum ExitCode : int {
  kExitOk = 0,            // the job is done, or a task was asked to stop and drained
  kExitJobFailed = 1,     // the job began and failed; the last line of stderr says why
  kExitBadConfig = 2,     // flags, TF_CONFIG, a file or the job are wrong; nothing was started
  kExitCannotListen = 3,  // the address is in use, not of this machine or not permitted, or
                          // too few files may be open for the connections
  kExitLostCluster = 4,   // too few tasks could be reached, or a parameter server was lost
  kExitDrainTimeout = 5,  // asked to stop, and calls were still open when the time was over
  kExitOrphaned = 6,      // no coordinator came for --orphan_timeout
  kExitInterrupted = 7,   // a coordinator was asked to stop; started again, it goes on from there
  kExitInternal = 70,     // a defect of Cohort
};

}  // namespace cohort
