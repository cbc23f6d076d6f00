#include "coordinator/inspect/model_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/formats/hdf5/hdf5_writer.h"
#include "coordinator/inspect/inspect_command.h"
#include "coordinator/inspect/model_file.h"
#include "coordinator/inspect/model_plot.h"
#include "coordinator/inspect/text.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kSequential[] = R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
  {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, 4]}},
  {"class_name": "Dense", "config": {"name": "d1", "units": 300}},
  {"class_name": "BatchNormalization", "config": {"name": "bn"}},
  {"class_name": "Dense", "config": {"name": "d2", "units": 2, "trainable": false}}]}})";

// A functional model with open dimensions, a layer of several outputs and one that is called twice.
constexpr char kFunctional[] = R"({"class_name": "Functional", "config": {"name": "f", "layers": [
  {"class_name": "InputLayer", "name": "ids", "inbound_nodes": [],
   "config": {"name": "ids", "batch_input_shape": [null, null], "dtype": "int32"}},
  {"class_name": "Embedding", "name": "e", "inbound_nodes": [[["ids", 0, 0, {}]]],
   "config": {"name": "e", "input_dim": 10, "output_dim": 4}},
  {"class_name": "LSTM", "name": "l", "inbound_nodes": [[["e", 0, 0, {}]]],
   "config": {"name": "l", "units": 3, "return_state": true}},
  {"class_name": "Dense", "name": "d", "inbound_nodes": [[["l", 0, 0, {}]], [["l", 0, 2, {}]]],
   "config": {"name": "d", "units": 2}},
  {"class_name": "Add", "name": "a", "inbound_nodes": [[["d", 0, 0, {}], ["d", 1, 0, {}]]],
   "config": {"name": "a"}}],
  "input_layers": [["ids", 0, 0]], "output_layers": [["a", 0, 0]]}})";

InspectResult Show(const std::string& text) {
  MemoryFileSystem files;
  EXPECT_TRUE(WriteFileAtomically(files, "model.json", text).ok());
  return RunInspect({"model", "show", "model.json"}, files);
}

constexpr char kSummary[] =
    R"(Model: "m"
Layer (type)             Output Shape  Param #  Connected to  Trainable
-----------------------------------------------------------------------
x (InputLayer)           (None, 4)           0                -
d1 (Dense)               (None, 300)     1,500  x[0][0]       Y
bn (BatchNormalization)  (None, 300)     1,200  d1[0][0]      Y
d2 (Dense)               (None, 2)         602  bn[0][0]      N

Total params: 3,302 (12.90 KB)
Trainable params: 2,100 (8.20 KB)
Non-trainable params: 1,202 (4.70 KB)
)";

TEST(ModelSummary, ShowsLayersAsKerasDoes) {
  const InspectResult shown = Show(kSequential);
  EXPECT_EQ(shown.error, "");
  EXPECT_EQ(shown.code, kExitOk);
  EXPECT_EQ(shown.output, kSummary);
}

TEST(ModelSummary, OfAJobFileReadsTheModelAlone) {
  EXPECT_EQ(Show(absl::StrCat(R"({"name": "job", "model": )", kSequential, "}")).output, kSummary);
}

TEST(ModelSummary, OfAnHdf5FileReadsTheConfigAndTheVersionBesideIt) {
  Hdf5Node root;
  root.Group("model_weights");
  EXPECT_TRUE(root.Group("model_weights").AddList("layer_names", {}).ok());
  root.AddText("keras_version", "2.15.0");
  root.AddText("model_config", kSequential);
  MemoryFileSystem files;
  ASSERT_TRUE(WriteHdf5(files, "model.h5", root).ok());
  const auto model = ReadModelFile(files, "model.h5");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->keras, (KerasVersion{2, 15}));
  EXPECT_EQ(RunInspect({"model", "show", "model.h5"}, files).output, kSummary);
}

TEST(ModelSummary, OpenDimensionsSeveralOutputsAndSeveralCallsAreShown) {
  EXPECT_EQ(Show(kFunctional).output,
            R"(Model: "f"
Layer (type)      Output Shape                       Param #  Connected to  Trainable
-------------------------------------------------------------------------------------
ids (InputLayer)  (None, None)                             0                -
e (Embedding)     (None, None, 4)                         40  ids[0][0]     Y
l (LSTM)          [(None, 3), (None, 3), (None, 3)]       96  e[0][0]       Y
d (Dense)         (None, 2)                                8  l[0][0]       Y
                                                              l[0][2]
a (Add)           (None, 2)                                0  d[0][0]       -
                                                              d[1][0]

Total params: 144 (576.00 B)
Trainable params: 144 (576.00 B)
Non-trainable params: 0 (0.00 B)
)");
}

TEST(ModelSummary, AModelWithoutAShapeIsShownWithQuestionMarks) {
  const InspectResult shown = Show(R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "Dense", "config": {"units": 3}}]}})");
  EXPECT_EQ(shown.code, kExitOk);
  EXPECT_THAT(shown.output, HasSubstr("dense (Dense)  ?                   ?  (input)       ?\n"));
  EXPECT_THAT(shown.output, HasSubstr("Give its first layer an input_shape"));
  EXPECT_THAT(shown.output, Not(HasSubstr("Total params")));
}

TEST(ModelSummary, SaysAtOnceEverythingThatIsNotSupported) {
  const InspectResult shown = Show(R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "ConvLSTM2D", "config": {}},
    {"class_name": "Dense", "config": {"units": 3, "activation": "swoosh"}}]}})");
  EXPECT_EQ(shown.code, kExitBadConfig);
  EXPECT_EQ(shown.output, "");
  EXPECT_THAT(shown.error, HasSubstr("ConvLSTM2D"));
  EXPECT_THAT(shown.error, HasSubstr("swoosh"));
}

TEST(ModelSummary, SaysWhichLayerCannotTakeItsInput) {
  const InspectResult shown = Show(R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4]}},
    {"class_name": "Conv2D", "config": {"name": "c", "filters": 3, "kernel_size": 3}}]}})");
  EXPECT_EQ(shown.code, kExitBadConfig);
  EXPECT_THAT(shown.error, HasSubstr("model.json: layer 'c'"));
}

TEST(ModelSummary, AVariableOfAnOpenSizeIsAnError) {
  const InspectResult shown = Show(R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, null]}},
    {"class_name": "Dense", "config": {"name": "d", "units": 3}}]}})");
  EXPECT_EQ(shown.code, kExitBadConfig);
  EXPECT_THAT(shown.error, HasSubstr("the shape of d/kernel follows from a dimension"));
}

TEST(ModelSummary, NamesCannotReachTheTerminal) {
  const InspectResult shown = Show(R"({"class_name": "Sequential", "config": {
    "name": "m\u001b[31m\nTotal params: 0", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4]}}]}})");
  EXPECT_THAT(shown.output, HasSubstr(R"(Model: "m\x1b[31m\x0aTotal params: 0")"));
  const InspectResult wrong = Show("{\"class_name\": \"\\u001b[2J\", \"config\": {}}");
  EXPECT_EQ(wrong.code, kExitBadConfig);
  EXPECT_THAT(wrong.error, Not(HasSubstr("\x1b")));
}

TEST(ModelFile, AJobWhoseModelIsAnotherFileShowsThatModel) {
  MemoryFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(files, "m.json", kSequential).ok());
  ASSERT_TRUE(WriteFileAtomically(files, "job.json", R"({"model": {"keras": "m.json"}})").ok());
  const InspectResult shown = RunInspect({"model", "show", "job.json"}, files);
  EXPECT_EQ(shown.error, "");
  EXPECT_EQ(shown.output, RunInspect({"model", "show", "m.json"}, files).output);
}

TEST(ModelFile, SaysWhatAFileWithoutAModelIs) {
  EXPECT_THAT(Show("{}").error, HasSubstr("is neither a job file"));
  EXPECT_THAT(Show("[1]").error, HasSubstr("is neither a job file"));
  EXPECT_THAT(Show("{").error, HasSubstr("model.json: "));
  MemoryFileSystem files;
  const InspectResult missing = RunInspect({"model", "show", "none.json"}, files);
  EXPECT_EQ(missing.code, kExitBadConfig);
  EXPECT_THAT(missing.error, HasSubstr("none.json"));
}

TEST(ModelPlot, HasABoxForEachCallAndEscapedText) {
  MemoryFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(files, "model.json", kFunctional).ok());
  const InspectResult plotted = RunInspect({"model", "plot", "model.json", "out.svg"}, files);
  EXPECT_EQ(plotted.error, "");
  EXPECT_EQ(plotted.output, "wrote out.svg\n");
  const std::string svg = *ReadFile(files, "out.svg");
  const auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<rect"), 6u);
  EXPECT_EQ(count(">d (Dense)<"), 2u);
  EXPECT_EQ(count("url(#arrow)"), 6u);
  EXPECT_EQ(svg.find("<svg "), 0u);
}

TEST(ModelPlot, AnArrowThatPassesARowHasABend) {
  MemoryFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(files, "m.json", R"({"class_name": "Functional", "config": {
    "name": "f", "layers": [
    {"class_name": "InputLayer", "name": "x", "inbound_nodes": [],
     "config": {"name": "x", "batch_input_shape": [null, 2]}},
    {"class_name": "Dense", "name": "d", "inbound_nodes": [[["x", 0, 0, {}]]],
     "config": {"name": "d", "units": 2}},
    {"class_name": "Add", "name": "a", "inbound_nodes": [[["d", 0, 0, {}], ["x", 0, 0, {}]]],
     "config": {"name": "a"}}],
    "input_layers": [["x", 0, 0]], "output_layers": [["a", 0, 0]]}})")
                  .ok());
  const auto model = ReadModelFile(files, "m.json");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto shapes = PlanShapes(*model);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  const auto svg = ModelPlot(*model, *shapes);
  ASSERT_TRUE(svg.ok()) << svg.status();
  // The bend lies in the row of d, from top to bottom.
  EXPECT_THAT(*svg, HasSubstr(",104 V148\""));
}

TEST(ModelPlot, RefusesAnotherEndingAndTheModelsOwnFile) {
  MemoryFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(files, "model.svg", kSequential).ok());
  const InspectResult ending = RunInspect({"model", "plot", "model.svg", "out.png"}, files);
  EXPECT_EQ(ending.code, kExitBadConfig);
  EXPECT_THAT(ending.error, HasSubstr("'out.png' does not end in .svg"));
  const InspectResult same = RunInspect({"model", "plot", "model.svg", "./model.svg"}, files);
  EXPECT_EQ(same.code, kExitBadConfig);
  EXPECT_THAT(same.error, HasSubstr("is the file of the model"));
}

TEST(InspectCommand, SaysWhatIsWrongWithTheWords) {
  MemoryFileSystem files;
  for (const char* command : {"model", "checkpoint"}) {
    EXPECT_TRUE(IsInspectCommand(command));
    EXPECT_THAT(RunInspect({command}, files).error, HasSubstr("needs a verb"));
    const InspectResult unknown = RunInspect({command, "print", "x"}, files);
    EXPECT_EQ(unknown.code, kExitBadConfig);
    EXPECT_THAT(unknown.error, HasSubstr("'print' is not a verb"));
    EXPECT_EQ(RunInspect({command, "show"}, files).code, kExitBadConfig);
    EXPECT_EQ(RunInspect({command, "--x"}, files).code, kExitBadConfig);
    EXPECT_THAT(RunInspect({command, "show", "~/x"}, files).error, HasSubstr("begins with ~"));
    const InspectResult help = RunInspect({command, "--help"}, files);
    EXPECT_EQ(help.code, kExitOk);
    EXPECT_THAT(help.output, HasSubstr("Exit codes"));
  }
  EXPECT_FALSE(IsInspectCommand("--job"));
}

TEST(InspectText, CutsAndEscapes) {
  EXPECT_EQ(Printable("abc", 3), "abc");
  EXPECT_EQ(Printable("abcdef", 5), "ab...");
  // An escape is cut whole.
  EXPECT_EQ(Printable("a\x01"
                      "bcdef",
                      7),
            "a...");
  EXPECT_EQ(PrintableLines("a\n\x1b\xff"), "a\n\\x1b\\xff");
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(-1234567), "-1,234,567");
  EXPECT_EQ(SizeText(1023), "1023.00 B");
  EXPECT_EQ(SizeText(1536), "1.50 KB");
}

}  // namespace
}  // namespace cohort
