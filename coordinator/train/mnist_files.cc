#include "coordinator/train/mnist_files.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/cluster/await.h"
#include "coordinator/local/child_process.h"

namespace cohort {

namespace {

struct KnownFile {
  const char* name;
  const char* sha256;
};

// MNIST's four files as Yann LeCun published them, compressed with gzip.
constexpr std::array<KnownFile, 4> kFiles = {
    {{"train-images-idx3-ubyte.gz",
      "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
     {"train-labels-idx1-ubyte.gz",
      "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
     {"t10k-images-idx3-ubyte.gz",
      "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
     {"t10k-labels-idx1-ubyte.gz",
      "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}};

constexpr std::array<const char*, 2> kMirrors = {
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist"};

constexpr absl::Duration kDownloadTimeout = absl::Minutes(3);
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

// Returns the paths of MNIST's four files in `directory`, in the order of kFiles.
MnistFiles FilesIn(const std::string& directory) {
  return {JoinPath(directory, kFiles[0].name), JoinPath(directory, kFiles[1].name),
          JoinPath(directory, kFiles[2].name), JoinPath(directory, kFiles[3].name)};
}

// Returns the names of MNIST's files that are not in `directory`. Errors: those of a file that
// exists and cannot be opened, naming the file and the reason.
absl::StatusOr<std::vector<std::string>> Missing(FileSystem& files, const std::string& directory) {
  std::vector<std::string> missing;
  for (const KnownFile& file : kFiles) {
    const absl::Status opened = files.Open(JoinPath(directory, file.name)).status();
    // A file may be downloaded only if it does not exist. A file that exists and cannot be opened
    // is a problem that the user must solve.
    if (absl::IsNotFound(opened)) {
      missing.push_back(file.name);
    } else if (!opened.ok()) {
      return Annotate(opened, "MNIST cannot be read");
    }
  }
  return missing;
}

absl::Status Incomplete(const std::string& directory, const std::vector<std::string>& missing,
                        absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("MNIST is incomplete: ", directory, " lacks ", absl::StrJoin(missing, ", "), why,
                   "; put what is missing there, or remove the other files"));
}

// Polls until a child process has ended, and then calls `done`. Needs no thread of its own.
void PollUntilEnd(World world, pid_t pid,
                  absl::AnyInvocable<void(absl::StatusOr<std::string>)> done) {
  if (const std::optional<std::string> end = PollChild(pid)) return done(*end);
  world.clock.CallAt(world.clock.Now() + kPollInterval,
                     [world, pid, done = std::move(done)]() mutable {
                       PollUntilEnd(world, pid, std::move(done));
                     });
}

// Downloads a file with curl, an ordinary program of the system, because Cohort has no HTTP client.
absl::Status Fetch(World world, Waiter& waiter, const std::string& url, const std::string& path) {
  ChildOptions options;
  options.program = "/usr/bin/curl";
  // curl's own limit of 150 s ends before kDownloadTimeout, so that curl's message about the delay
  // is reported.
  options.arguments = {"--fail", "--silent",   "--show-error", "--location", "--connect-timeout",
                       "5",      "--max-time", "150",          "--output",   path,
                       url};
  options.output_file = absl::StrCat(path, ".log");
  ASSIGN_OR_RETURN(const pid_t pid, StartChild(options));
  ASSIGN_OR_RETURN(const std::string end,
                   Await<std::string>(waiter, kDownloadTimeout, url, [&](auto done) {
                     PollUntilEnd(world, pid, std::move(done));
                   }));
  const std::string said = ReadFile(world.files, options.output_file).value_or("");
  RETURN_IF_ERROR(world.files.Remove(options.output_file));
  if (end == "exit code 0") return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("curl ", url, ": ", end, " ", said));
}

// Downloads one file from the first mirror that has the file with the right checksum.
absl::Status Download(World world, Waiter& waiter, const KnownFile& file,
                      const std::string& directory) {
  const std::string path = JoinPath(directory, file.name);
  // The downloaded file gets its final name only when it is complete and verified.
  const std::string temporary = absl::StrCat(path, ".part");
  absl::Status last;
  for (const char* mirror : kMirrors) {
    last = Fetch(world, waiter, absl::StrCat(mirror, "/", file.name), temporary);
    if (!last.ok()) continue;
    ASSIGN_OR_RETURN(const std::string sum, Sha256OfFile(world.files, temporary));
    if (sum == file.sha256) return world.files.Rename(temporary, path);
    last = absl::DataLossError(
        absl::StrCat(mirror, "/", file.name, " has SHA-256 ", sum, ", expected ", file.sha256));
  }
  // No mirror had the right file, so the remains of the last download are removed.
  RETURN_IF_ERROR(world.files.Remove(temporary));
  return last;
}

absl::Status DownloadAll(World world, Waiter& waiter, const std::vector<std::string>& missing,
                         const std::string& directory) {
  RETURN_IF_ERROR(world.files.MakeDirectories(directory));
  for (const KnownFile& file : kFiles) {
    if (std::find(missing.begin(), missing.end(), file.name) == missing.end()) continue;
    RETURN_IF_ERROR(Download(world, waiter, file, directory));
  }
  return absl::OkStatus();
}

// Returns the files of MNIST in the directory that the user named, or nothing if it has none of
// them. Requires such a directory. Errors: those of Missing and of Incomplete.
absl::StatusOr<std::optional<MnistFiles>> InDataDirectory(FileSystem& files,
                                                          const MnistSearch& search) {
  const std::string directory = JoinPath(search.data_directory, "mnist");
  ASSIGN_OR_RETURN(const std::vector<std::string> missing, Missing(files, directory));
  if (missing.empty()) return FilesIn(directory);
  // The user named this directory. So if some of the files are missing there, that is an error, not
  // a reason to download them.
  if (missing.size() < kFiles.size()) return Incomplete(directory, missing, "");
  return std::optional<MnistFiles>();
}

// Returns a text that says why the data directory has no files of MNIST.
std::string LookedIn(const MnistSearch& search) {
  if (search.data_directory.empty()) return "COHORT_DATA_DIR is not set";
  return absl::StrCat("there is none in ", JoinPath(search.data_directory, "mnist"));
}

absl::Status NoCache(const MnistSearch& search) {
  return absl::NotFoundError(
      absl::StrCat("no MNIST: ", LookedIn(search), ", and HOME is not set, so there is no cache"));
}

}  // namespace

absl::Status CheckMnist(FileSystem& files, const MnistSearch& search) {
  if (!search.data_directory.empty()) {
    ASSIGN_OR_RETURN(const std::optional<MnistFiles> found, InDataDirectory(files, search));
    if (found.has_value()) return absl::OkStatus();
  }
  if (search.cache_directory.empty()) return NoCache(search);
  return Missing(files, JoinPath(search.cache_directory, "mnist")).status();
}

absl::StatusOr<std::string> Sha256OfFile(FileSystem& files, const std::string& path) {
  // The file is read as a whole, because the largest file of MNIST has only 10 MB.
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(files, path));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1) {
    return absl::InternalError("SHA-256 is not available");
  }
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

absl::StatusOr<MnistFiles> FindMnist(World world, Waiter& waiter, const MnistSearch& search) {
  if (!search.data_directory.empty()) {
    ASSIGN_OR_RETURN(const std::optional<MnistFiles> found, InDataDirectory(world.files, search));
    if (found.has_value()) return *found;
  }
  if (search.cache_directory.empty()) return NoCache(search);
  const std::string cache = JoinPath(search.cache_directory, "mnist");
  ASSIGN_OR_RETURN(const std::vector<std::string> missing, Missing(world.files, cache));
  if (missing.empty()) return FilesIn(cache);
  absl::Status status = absl::OkStatus();
  if (search.download) {
    status = DownloadAll(world, waiter, missing, cache);
    if (status.ok()) return FilesIn(cache);
  }
  const std::string why = status.ok() ? ""
                                      : absl::StrCat(", and the download failed: ",
                                                     absl::StripAsciiWhitespace(status.message()));
  // The download may have brought some of the files before it failed.
  ASSIGN_OR_RETURN(const std::vector<std::string> still, Missing(world.files, cache));
  if (still.size() < kFiles.size()) return Incomplete(cache, still, why);
  return absl::NotFoundError(absl::StrCat("no MNIST: ", LookedIn(search), ", nor in ", cache, why));
}

}  // namespace cohort
