// Checks any set of paths that a command reads and writes, in a folder of files, links, hard links
// and folders. If the check accepts them, then writing all outputs must leave every input unchanged
// and every output with its own content. It also checks any name of a file beside a model: a file
// that may be read must lie in the model's folder.
//
// FUZZ: sources=tools/cli/paths.cc tools/cli/exit.cc

#include "ir/check.h"
#include "ir/file.h"
#include "tools/cli/paths.h"
#include "llvm/Support/FileSystem.h"
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace isthmus;
namespace fs = std::filesystem;

namespace {

// A new folder, which contains all paths. It is made anew for each input.
class Folder {
public:
  Folder() {
    llvm::SmallString<128> made;
    fs::path base = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    ISTHMUS_CHECK(!llvm::sys::fs::createUniqueDirectory((base / "paths").string(), made),
                  "a folder");
    root_ = fs::canonical(made.str().str());
  }
  ~Folder() { fs::remove_all(root_); }

  // Fills the model's folder, which is the current one.
  void fill() {
    fs::current_path("/");
    fs::remove_all(root_);
    fs::path in = root_ / "in";
    fs::create_directories(in / "d");
    write(root_ / "outside", "outside");
    write(in / "a", "a");
    write(in / "b", "b");
    write(in / "d" / "a", "d/a");
    fs::create_hard_link(in / "b", in / "h");
    fs::create_symlink("a", in / "s");
    fs::create_symlink("s", in / "t");
    fs::create_symlink("d", in / "l");
    fs::create_symlink("new", in / "n");
    fs::create_symlink("circle", in / "circle");
    fs::create_symlink("../outside", in / "o");
    fs::create_symlink("..", in / "d" / "up");
    ::mkfifo((in / "fifo").c_str(), 0600);
    fs::current_path(in);
  }

  static void write(const fs::path &path, const std::string &text) { std::ofstream(path) << text; }
  const fs::path &root() const { return root_; }

  // Whether the path, with links followed, leads into this folder. The fuzzer must not write
  // elsewhere.
  bool holds(const std::string &path) const {
    std::error_code loop;
    fs::path real = fs::weakly_canonical(path, loop);
    if (loop)
      real = (fs::current_path() / path).lexically_normal();
    return llvm::StringRef(real.string()).startswith((root_ / "").string());
  }

private:
  fs::path root_;
};

std::string contents(const std::string &path) {
  auto bytes = readRegularFile(path);
  if (bytes)
    return (*bytes)->getBuffer().str();
  llvm::consumeError(bytes.takeError());
  return "";
}

class Bytes {
public:
  Bytes(const uint8_t *data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint8_t next() {
    if (size_ == 0)
      return 0;
    --size_;
    return *data_++;
  }

  std::string path() {
    static const char *const kParts[] = {"a", "b",  "d",      "h",    "s",  "t", "l",   "n",
                                         "o", "up", "circle", "fifo", "..", ".", "new", "in"};
    std::string path = next() % 8 == 0 ? (fs::current_path() / "").string() : "";
    for (unsigned parts = 1 + next() % 4; parts; --parts) {
      uint8_t which = next();
      path += which < 240 ? kParts[which % std::size(kParts)] : std::string(1, char(next()));
      path += parts > 1 ? "/" : "";
    }
    return path;
  }

private:
  const uint8_t *data_;
  size_t size_;
};

struct Output {
  std::string path;
  bool isFolder;
};

void checkCommand(Bytes bytes, const Folder &folder) {
  CommandPaths paths;
  std::vector<std::string> inputs;
  std::vector<Output> outputs;
  for (unsigned n = 1 + bytes.next() % 5; n && !bytes.empty(); --n) {
    unsigned kind = bytes.next() % 8;
    std::string path = bytes.path();
    if (path == "-")
      continue; // standard input and output have no content to compare
    if (!folder.holds(path))
      continue;
    if (kind < 3) {
      inputs.push_back(path);
      paths.reads("input", path);
    } else if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path) &&
               !llvm::sys::fs::is_directory(path)) {
      continue; // opening a pipe would wait for its reader
    } else {
      outputs.push_back({path, kind == 3});
      kind == 3 ? paths.writesFolder("folder", path) : paths.writes("output", path);
    }
  }
  if (llvm::Error e = paths.check()) {
    ISTHMUS_CHECK(!llvm::toString(std::move(e)).empty(), "a message");
    return;
  }
  std::vector<std::string> before;
  for (const std::string &path : inputs)
    before.push_back(contents(path));
  std::vector<std::pair<std::string, std::string>> written;
  for (const Output &out : outputs) {
    std::string text = "output " + std::to_string(written.size());
    llvm::Error e = out.isFolder
                        ? llvm::errorCodeToError(llvm::sys::fs::create_directories(out.path))
                        : writeFileAtomically(out.path, text);
    if (!e && !out.isFolder)
      written.emplace_back(out.path, text);
    llvm::consumeError(std::move(e));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    ISTHMUS_CHECK(before[i].empty() || contents(inputs[i]) == before[i],
                  "an input was overwritten: " + inputs[i]);
  for (const auto &[path, text] : written)
    ISTHMUS_CHECK(contents(path) == text, "an output was overwritten: " + path);
}

void checkBeside(Bytes bytes, const Folder &folder) {
  std::string name = bytes.path();
  auto found = openFileBeside(".", name, Outside::Refused);
  if (!found) {
    ISTHMUS_CHECK(!llvm::toString(found.takeError()).empty(), "a message");
    return;
  }
  fs::path real = fs::canonical(name);
  ISTHMUS_CHECK(llvm::StringRef(real.string()).startswith((folder.root() / "in/").string()),
                "a file outside was read: " + real.string());
  auto content = (*found)->readAll();
  ISTHMUS_CHECK(content && (*content)->getBuffer() != "outside" && fs::is_regular_file(real), "no such file");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Folder folder;
  folder.fill();
  Bytes bytes(data, size);
  if (bytes.next() % 4 == 0)
    checkBeside(bytes, folder);
  else
    checkCommand(bytes, folder);
  return 0;
}
