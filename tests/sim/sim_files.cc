#include "tests/sim/sim_files.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

using Kind = FileCall::Kind;

absl::Status SimFiles::View::Ask(const FileCall& call, size_t* written) {
  const absl::Status dead =
      absl::UnavailableError(absl::StrCat(call.path, ": ", host, " was killed"));
  if (!alive) return dead;
  const absl::Status fate = watcher.OnFileCall(host, call, written);
  return alive ? fate : dead;
}

absl::Status SimFiles::View::Tell(const FileCall& call, const absl::Status& result) {
  if (result.ok()) watcher.OnFileDone(host, call);
  return result;
}

// Thread-compatible.
class SimFiles::Writer final : public WritableFile {
 public:
  Writer(std::shared_ptr<View> view, std::string path, std::unique_ptr<WritableFile> file)
      : view_(std::move(view)), path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Append(absl::string_view bytes) override {
    const FileCall call{Kind::kAppend, path_, bytes.size()};
    size_t written = 0;
    const absl::Status fate = view_->Ask(call, &written);
    if (!fate.ok() && written > 0) file_->Append(bytes.substr(0, written)).IgnoreError();
    RETURN_IF_ERROR(fate);
    return view_->Tell(call, file_->Append(bytes));
  }
  absl::Status Sync() override {
    const FileCall call{Kind::kSync, path_};
    RETURN_IF_ERROR(view_->Ask(call, nullptr));
    return view_->Tell(call, file_->Sync());
  }
  absl::Status Close() override {
    const FileCall call{Kind::kClose, path_};
    RETURN_IF_ERROR(view_->Ask(call, nullptr));
    return view_->Tell(call, file_->Close());
  }

 private:
  const std::shared_ptr<View> view_;
  const std::string path_;
  const std::unique_ptr<WritableFile> file_;
};

// Thread-compatible.
class SimFiles::Reader final : public ReadableFile {
 public:
  Reader(std::shared_ptr<View> view, std::string path, std::unique_ptr<ReadableFile> file)
      : view_(std::move(view)), path_(std::move(path)), file_(std::move(file)) {}

  uint64_t size() const override { return file_->size(); }
  absl::Status Read(uint64_t offset, absl::Span<char> out) const override {
    const FileCall call{Kind::kRead, path_};
    RETURN_IF_ERROR(view_->Ask(call, nullptr));
    return view_->Tell(call, file_->Read(offset, out));
  }

 private:
  const std::shared_ptr<View> view_;
  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
};

absl::StatusOr<std::unique_ptr<WritableFile>> SimFiles::Create(const std::string& path) {
  const FileCall call{Kind::kCreate, path};
  RETURN_IF_ERROR(view_->Ask(call, nullptr));
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, view_->disk.Create(path));
  RETURN_IF_ERROR(view_->Tell(call, absl::OkStatus()));
  return std::make_unique<Writer>(view_, path, std::move(file));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> SimFiles::Open(const std::string& path) {
  const FileCall call{Kind::kOpen, path};
  RETURN_IF_ERROR(view_->Ask(call, nullptr));
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, view_->disk.Open(path));
  RETURN_IF_ERROR(view_->Tell(call, absl::OkStatus()));
  return std::make_unique<Reader>(view_, path, std::move(file));
}

absl::StatusOr<std::vector<std::string>> SimFiles::List(const std::string& directory) {
  const FileCall call{Kind::kList, directory};
  RETURN_IF_ERROR(view_->Ask(call, nullptr));
  return view_->disk.List(directory);
}

absl::Status SimFiles::Rename(const std::string& from, const std::string& to) {
  const FileCall call{Kind::kRename, to};
  RETURN_IF_ERROR(view_->Ask(call, nullptr));
  return view_->Tell(call, view_->disk.Rename(from, to));
}

absl::Status SimFiles::Remove(const std::string& path) {
  const FileCall call{Kind::kRemove, path};
  RETURN_IF_ERROR(view_->Ask(call, nullptr));
  return view_->Tell(call, view_->disk.Remove(path));
}

absl::Status SimFiles::MakeDirectories(const std::string& path) {
  const FileCall call{Kind::kMake, path};
  RETURN_IF_ERROR(view_->Ask(call, nullptr));
  return view_->Tell(call, view_->disk.MakeDirectories(path));
}

}  // namespace cohort
