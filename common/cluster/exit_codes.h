#pragma once

// Exit codes of Cohort's executables. The numbers are a public interface: scripts and Kubernetes
// policies depend on them.

namespace cohort {

enum ExitCode : int {
  kExitOk = 0,         // the job is done, or the task was asked to stop and its calls ended
  kExitJobFailed = 1,  // the job started and failed; the last line of stderr gives the reason
  kExitBadConfig = 2,  // flags, TF_CONFIG, a file or the job are wrong; nothing was started
  // The task cannot listen: its address is in use, not permitted or not of this machine, or the
  // limit on open files is too low for connections.
  kExitCannotListen = 3,
  kExitLostCluster = 4,   // too few tasks could be reached, or a parameter server was lost
  kExitDrainTimeout = 5,  // the task was asked to stop, and calls were open at the drain timeout
  kExitOrphaned = 6,      // no coordinator connected to the task for the time --orphan_timeout
  kExitInterrupted = 7,   // the coordinator was asked to stop; a new coordinator continues the job
  kExitInternal = 70,     // the process found a defect of Cohort itself
};

}  // namespace cohort
