#include "common/formats/npz.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/npy.h"
#include "common/formats/zip_writer.h"

namespace cohort {

namespace {

constexpr absl::string_view kSuffix = ".npy";

// The arrays of an archive. Thread-safe.
class NpzFile final : public TensorFile {
 public:
  NpzFile(std::unique_ptr<ZipArchive> archive, std::string path)
      : archive_(std::move(archive)), path_(std::move(path)) {}

  absl::Status Init() {
    for (size_t i = 0; i < archive_->members().size(); ++i) {
      const std::string& name = archive_->members()[i].name;
      ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file,
                       archive_->Read(i, kNpzArrayBytesMax));
      ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(*file, Where(i)));
      tensors_.push_back({std::string(absl::StripSuffix(name, kSuffix)),
                          header.supported ? DTypeOfStored(header.type) : DType::kUndefined,
                          header.shape, header.descr});
    }
    return absl::OkStatus();
  }

  const std::vector<FileTensor>& tensors() const override { return tensors_; }

  absl::StatusOr<Tensor> Read(size_t index) const override {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file,
                     archive_->Read(index, kNpzArrayBytesMax));
    const std::string where = Where(index);
    ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(*file, where));
    return ReadNpy(*file, header, where);
  }

 private:
  std::string Where(size_t index) const {
    return absl::StrCat(path_, ": array '", Excerpt(archive_->members()[index].name), "'");
  }

  const std::unique_ptr<ZipArchive> archive_;
  const std::string path_;
  std::vector<FileTensor> tensors_;  // one for each member
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFile>> OpenNpz(std::unique_ptr<ZipArchive> archive,
                                                    const std::string& path) {
  auto file = std::make_unique<NpzFile>(std::move(archive), path);
  RETURN_IF_ERROR(file->Init());
  return file;
}

absl::Status WriteNpz(FileSystem& files, const std::string& path,
                      absl::Span<const NamedTensor> tensors) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ZipWriter> writer, ZipWriter::Create(files, path));
  for (const NamedTensor& tensor : tensors) {
    absl::StatusOr<std::string> header = NpyHeaderBytes(tensor.value);
    if (!header.ok()) {
      writer->Discard();
      return Annotate(header.status(), absl::StrCat("tensor '", Excerpt(tensor.name), "'"));
    }
    const absl::string_view elements(reinterpret_cast<const char*>(tensor.value.raw()),
                                     tensor.value.num_bytes());
    RETURN_IF_ERROR(writer->Add(absl::StrCat(tensor.name, kSuffix), {*header, elements}));
  }
  return writer->Finish();
}

}  // namespace cohort
