#pragma once

// The operator sets that Cohort's models import.

namespace cohort {

// The domain of the operators that ONNX lacks, and the versions that models made by Cohort import.
inline constexpr char kCohortDomain[] = "cohort";
inline constexpr int kCohortOpset = 1;
inline constexpr int kOnnxOpset = 17;
inline constexpr int kOnnxIrVersion = 8;  // the IR version that belongs to opset 17

}  // namespace cohort
