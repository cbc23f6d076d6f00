// Memory that the processor and a device both touch: who reaches what, and programs that read it
// where it lies.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/counted_uploads.h"
#include "tests/device/device_programs.h"

namespace cohort {
namespace {

using UnifiedMemory = DeviceProgramTest;

Tensor Unified(CudaStream& stream, const std::vector<float>& values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  Tensor tensor(DType::kFloat32, shape, stream.AllocateUnified(values.size() * sizeof(float)), 0);
  std::copy(values.begin(), values.end(), tensor.mutable_data<float>());
  return tensor;
}

// A lease, as a home gives it: the same bytes in another buffer, which keeps the first.
class Lease : public BufferMemory {
 public:
  explicit Lease(std::shared_ptr<Buffer> buffer) : buffer_(std::move(buffer)) {}

 private:
  const std::shared_ptr<Buffer> buffer_;
};
Tensor Leased(const Tensor& tensor, int64_t first, int64_t count) {
  Buffer& buffer = *tensor.buffer();
  return Tensor(DType::kFloat32, Shape{count},
                Buffer::Of(std::make_shared<Lease>(tensor.buffer()),
                           absl::MakeSpan(buffer.data(), buffer.size())),
                static_cast<size_t>(first) * sizeof(float));
}

TEST_P(UnifiedMemory, IsWrittenAndReadByBoth) {
  const auto stream = OpenStream();
  Tensor x = Unified(*stream, {1, -2, 3});
  EXPECT_FALSE(IsOnDevice(x)) << "it is the processor's, too";
  stream->Launch(&CudaLaunches::elementwise, &ElementwiseLaunches::unary,
                 {UnaryLaunch::Op::kNeg, 3, x.data<float>(), x.mutable_data<float>()});
  ASSERT_TRUE(stream->Wait().ok());
  EXPECT_EQ(Values(x), (std::vector<float>{-1, 2, -3}));
}

TEST_P(UnifiedMemory, IsReachedAtItsHomeAndSoIsTheDevicesOwn) {
  const auto stream = OpenStream();
  const auto other_of_same = OpenStream();
  const auto unified = stream->AllocateUnified(1000);
  const auto own = stream->Allocate(1000);
  for (const auto& asked : {stream, other_of_same}) {
    for (const auto& buffer : {unified, own}) {
      EXPECT_TRUE(asked->Reaches(buffer->data()));
      EXPECT_TRUE(asked->Reaches(buffer->data() + 999));
    }
    const Tensor host = Floats({1});
    EXPECT_FALSE(asked->Reaches(host.raw()));
    EXPECT_TRUE(asked->Wait().ok());
  }
}

TEST_P(UnifiedMemory, IsCopiedAsAnyOther) {
  const auto stream = OpenStream();
  Tensor x = Unified(*stream, {1, 2, 3});
  const Tensor there = stream->Upload(x);
  const Tensor cloned = stream->Clone(x);
  Tensor here = Unified(*stream, {0, 0, 0});
  Tensor host = Floats({0, 0, 0});
  stream->CopyToHost(there, here);
  stream->CopyToHost(cloned, host);
  ASSERT_TRUE(stream->Wait().ok());
  EXPECT_EQ(Values(here), Values(x));
  EXPECT_EQ(Values(host), Values(x));
}

// Weights of a home, in its memory and leased, are not copied; what is of the host is.
TEST_P(UnifiedMemory, IsReadByProgramsWhereItLies) {
  GraphBuilder builder("sum");
  std::string sum = builder.Input("a", DType::kFloat32, {2});
  for (const char* const name : {"b", "c"}) {
    sum = builder.Op("Add", {sum, builder.Input(name, DType::kFloat32, {2})});
  }
  builder.Output(sum);
  const onnx::ModelProto model = *builder.Finish();
  const CountedUploads uploads(*table());
  const auto stream = *CudaStream::Open(uploads.table(), 0);
  auto runner = *Compile(model, stream);
  const auto home = OpenStream();
  const Tensor whole = Unified(*home, {9, 1, 2, 9});
  const std::vector<Tensor> inputs = {Unified(*home, {10, 20}), Leased(whole, 1, 2),
                                      Floats({100, 200})};
  for (int run = 1; run <= 3; ++run) {
    const auto outputs = runner->Run(inputs, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(Values((*outputs)[0]), (std::vector<float>{111, 222}));
    EXPECT_EQ(uploads.count(), run);
  }
}

// A kernel writes its result over a copy that it alone reads, and never over what lies elsewhere.
TEST_P(UnifiedMemory, IsNotWrittenByProgramsThatReadIt) {
  GraphBuilder builder("over");
  const std::string x = builder.Input("x", DType::kFloat32, {3});
  builder.Output(builder.Op("Exp", {builder.Op("Neg", {x})}));
  const onnx::ModelProto model = *builder.Finish();
  for (const bool first : {true, false}) {
    const auto stream = OpenStream();
    auto runner = *Compile(model, stream);
    for (int run = 0; run < 6; ++run) {
      const std::vector<float> values = {1, 2, static_cast<float>(run)};
      const bool in_place = (run / 2 % 2 == 0) == first;
      const Tensor x = in_place ? Unified(*stream, values) : Floats(values);
      const auto outputs = runner->Run(std::vector<Tensor>{x}, RunContext{});
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      const std::vector<float> expected = Values((*RunOnHost(model, {Floats(values)}))[0]);
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(Values((*outputs)[0])[i], expected[i], 1e-6);
      EXPECT_EQ(Values(x), values);
    }
  }
}

TEST_P(UnifiedMemory, ServesAgainWhenItWasDropped) {
  const auto stream = OpenStream();
  const std::byte* const first = stream->AllocateUnified(1000)->data();
  const auto own = stream->Allocate(1000);
  EXPECT_NE(own->data(), first);
  EXPECT_EQ(stream->AllocateUnified(1000)->data(), first);
}

COHORT_ON_CUDA_DEVICES(UnifiedMemory);

using StandInUnifiedMemory = StandInProgramTest;

TEST_F(StandInUnifiedMemory, OfAnotherDeviceIsCopied) {
  const CountedUploads uploads(MakeCudaStandIn(2, kStandInMemory));
  const auto one = *CudaStream::Open(uploads.table(), 0);
  const auto other = *CudaStream::Open(uploads.table(), 1);
  EXPECT_FALSE(one->Reaches(other->AllocateUnified(8)->data()));
  EXPECT_FALSE(one->Reaches(other->Allocate(8)->data()));
  auto runner = *Compile(ThereAndBack(), one);
  const auto outputs = runner->Run(std::vector<Tensor>{Unified(*other, {1, 2})}, RunContext{});
  EXPECT_EQ(Values((*outputs)[0]), (std::vector<float>{-1, -2}));
  EXPECT_EQ(uploads.count(), 1);
}

TEST_F(StandInUnifiedMemory, IsMemoryOfItsDevice) {
  const auto stream = OpenStream(8192);
  {
    const auto unified = stream->AllocateUnified(6000);
    ASSERT_TRUE(stream->Wait().ok());
    stream->Allocate(6000);
    EXPECT_THAT(std::string(stream->Wait().message()),
                testing::HasSubstr("gpu:0 has no memory for 6000"));
    stream->AllocateUnified(6001);
    EXPECT_EQ(stream->Wait().code(), absl::StatusCode::kResourceExhausted);
  }
  { const auto own = stream->Allocate(6000); }
  EXPECT_TRUE(stream->Wait().ok()) << "what the pool of the other kind had was given back";
  { const auto unified = stream->AllocateUnified(7000); }
  EXPECT_TRUE(stream->Wait().ok());
}

using UnifiedMemoryDeathTest = StandInProgramTest;

TEST_F(UnifiedMemoryDeathTest, NobodyWritesBeyondItsEnd) {
  EXPECT_DEATH(
      {
        const auto stream = OpenStream();
        stream->AllocateUnified(10)->data()[10] = std::byte{1};
        stream->Allocate(kStandInMemory);  // the pool gives it back
      },
      "nobody writes beyond the end");
}

}  // namespace
}  // namespace cohort
