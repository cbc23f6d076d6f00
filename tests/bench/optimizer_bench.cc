// Dense updates on one core against what memory allows: a plain loop that reads and writes as many
// arrays, in place as they do. Both go through memory in blocks as a ps does, in turns.

#include <time.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/program/update_rule.h"
#include "common/runtime/kernel/simd.h"
#include "common/runtime/update/make_update_kernel.h"
#include "common/runtime/update/update_kernel.h"
#include "tests/bench/bench.h"

namespace cohort::bench {

namespace {

constexpr size_t kBlock = 4096;  // elements; a ps takes 16 KiB of a gradient at a time
constexpr size_t kRowWidth = 32;
constexpr size_t kArraysMax = 6;  // value and slots

struct RuleCase {
  const char* name;
  const char* op;
  std::vector<std::pair<const char*, double>> parameters;
};

std::vector<RuleCase> Cases() {
  return {{"assign_add", "assign_add", {}},
          {"sgd", "sgd", {}},
          {"sgd_momentum", "sgd", {{"momentum", 0.9}}},
          {"sgd_nesterov", "sgd", {{"momentum", 0.9}, {"nesterov", 1}}},
          {"adagrad", "adagrad", {}},
          {"rowwise_adagrad", "rowwise_adagrad", {}},
          {"rmsprop", "rmsprop", {}},
          {"rmsprop_momentum", "rmsprop", {{"momentum", 0.9}}},
          {"rmsprop_centered", "rmsprop", {{"centered", 1}}},
          {"rmsprop_centered_momentum", "rmsprop", {{"centered", 1}, {"momentum", 0.9}}},
          {"adam", "adam", {}},
          {"amsgrad", "adam", {{"amsgrad", 1}}},
          {"adamw", "adam", {{"weight_decay", 0.004}}},
          {"adamax", "adamax", {}},
          {"nadam", "nadam", {}},
          {"adadelta", "adadelta", {}},
          {"ftrl", "ftrl", {}},
          {"ftrl_l1_l2_shrinkage_beta",
           "ftrl",
           {{"l1_regularization_strength", 0.01},
            {"l2_regularization_strength", 0.01},
            {"l2_shrinkage_regularization_strength", 0.01},
            {"beta", 1}}},
          {"sgd_average", "sgd", {{"use_ema", 1}}},
          {"adam_average", "adam", {{"use_ema", 1}}}};
}

// Adds the gradient to each of the arrays.
template <size_t... kArray>
COHORT_INLINE void StreamBody(std::index_sequence<kArray...>, const float* gradient,
                              float* const* arrays, size_t count) {
  float* const out[] = {arrays[kArray]...};
  COHORT_IVDEP
  for (size_t i = 0; i < count; ++i) ((out[kArray][i] += gradient[i]), ...);
}

COHORT_SIMD void StreamLoop(const float* gradient, float* const* arrays, size_t num_arrays,
                            size_t count) {
  switch (num_arrays) {
    case 1:
      return StreamBody(std::make_index_sequence<1>(), gradient, arrays, count);
    case 2:
      return StreamBody(std::make_index_sequence<2>(), gradient, arrays, count);
    case 3:
      return StreamBody(std::make_index_sequence<3>(), gradient, arrays, count);
    case 4:
      return StreamBody(std::make_index_sequence<4>(), gradient, arrays, count);
    default:
      return StreamBody(std::make_index_sequence<5>(), gradient, arrays, count);
  }
}

using Arrays = std::vector<std::vector<float>>;

void Stream(const std::vector<float>& gradient, Arrays& arrays, size_t num_arrays) {
  for (size_t begin = 0; begin < gradient.size(); begin += kBlock) {
    float* blocks[kArraysMax];
    for (size_t k = 0; k < num_arrays; ++k) blocks[k] = arrays[k].data() + begin;
    StreamLoop(gradient.data() + begin, blocks, num_arrays, kBlock);
  }
}

// arrays[0] is the value, the slots follow.
void Update(const UpdateKernel& kernel, const UpdateRuleSpec& spec,
            const std::vector<float>& gradient, Arrays& arrays) {
  static uint64_t step = 1;
  UpdateStep update;
  update.learning_rate = 0.001;
  update.step = ++step;
  update.row_width = kRowWidth;
  update.slots.resize(spec.slots.size());
  for (size_t begin = 0; begin < gradient.size(); begin += kBlock) {
    const absl::Span<float> value = absl::MakeSpan(arrays[0]).subspan(begin, kBlock);
    update.gradient = absl::MakeConstSpan(gradient).subspan(begin, kBlock);
    update.value_in = value;
    update.value_out = value;
    for (size_t i = 0; i < spec.slots.size(); ++i) {
      const size_t width = spec.slots[i].per_row ? kRowWidth : 1;
      const auto slot = absl::MakeSpan(arrays[i + 1]).subspan(begin / width, kBlock / width);
      update.slots[i] = {slot, slot};
    }
    kernel.Apply(update);
  }
}

// Processor time of this thread: what else runs on the machine is not ours.
double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <typename Body>
double SecondsOf(const Body& body) {
  const double start = ThreadSeconds();
  body();
  return ThreadSeconds() - start;
}

absl::Status Measure(const RuleCase& each, size_t elements, int repeats) {
  proto::UpdateRule rule;
  rule.set_op(each.op);
  for (const auto& [name, value] : each.parameters) {
    rule.add_parameters()->set_name(name);
    rule.mutable_parameters()->rbegin()->set_value(value);
  }
  ASSIGN_OR_RETURN(const UpdateRuleSpec spec, DescribeUpdateRule(rule));
  ASSIGN_OR_RETURN(const std::unique_ptr<UpdateKernel> kernel, MakeUpdateKernel(rule));
  const RandomStream random(1, "gradient");
  std::vector<float> gradient(elements);
  for (size_t i = 0; i < elements; ++i) gradient[i] = 0.01f + random.Uniform(i);
  Arrays arrays = {gradient};
  for (const SlotSpec& slot : spec.slots) arrays.emplace_back(elements, slot.initial_value);
  size_t num_arrays = 1;  // a slot per row is a 32nd of one
  for (const SlotSpec& slot : spec.slots) num_arrays += slot.per_row ? 0 : 1;
  std::vector<double> ours;
  std::vector<double> plain;
  std::vector<double> ratios;  // of neighbours in time, whose other load is the same
  const double bytes = static_cast<double>(elements * sizeof(float) * (1 + 2 * num_arrays));
  for (int i = 0; i <= repeats; ++i) {
    const double update = SecondsOf([&] { Update(*kernel, spec, gradient, arrays); });
    const double stream = SecondsOf([&] { Stream(gradient, arrays, num_arrays); });
    if (i == 0) continue;  // the first touches the pages
    ours.push_back(bytes / update / 1e9);
    plain.push_back(bytes / stream / 1e9);
    ratios.push_back(stream / update);
  }
  Print({"optimizer",
         each.name,
         Median(ours),
         "GB/s",
         "plain loop over as many arrays",
         Median(plain),
         {{"median_of_ratios", Median(ratios)},
          {"arrays_read_and_written", static_cast<double>(num_arrays)},
          {"elements_per_s", Median(ours) * 1e9 / bytes * static_cast<double>(elements)}}});
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const int millions, options.Number("millions"));
  const size_t elements = (static_cast<size_t>(millions) << 20) / kBlock * kBlock;
  for (const RuleCase& each : Cases()) RETURN_IF_ERROR(Measure(each, elements, repeats));
  return absl::OkStatus();
}

}  // namespace

Command OptimizerBench() {
  return {"optimizer",
          "each dense update in place on one core, against a plain loop over as many arrays",
          {{"repeats", "5", "of each; the median counts"},
           {"millions", "16", "of elements (2^20) in each array, beyond the caches"}},
          Run};
}

}  // namespace cohort::bench
