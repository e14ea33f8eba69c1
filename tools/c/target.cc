#include "tools/c/target.h"

#include "ir/target_text.h"
#include "ir/text/isth_file.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <array>

namespace isthmus::c {
namespace {

// The message of a program's function that failed.
class Message {
public:
  char *data() { return text_.data(); }
  size_t capacity() const { return text_.size(); }
  llvm::Error error(isthmus_status status, const char *function) {
    text_.back() = '\0';
    const ErrorKind kind = status == ISTHMUS_UNSUPPORTED     ? ErrorKind::Unsupported
                           : status == ISTHMUS_OUT_OF_MEMORY ? ErrorKind::OutOfMemory
                           : status == ISTHMUS_INTERNAL      ? ErrorKind::Internal
                                                             : ErrorKind::BadInput;
    if (text_.front())
      return makeError(kind, "{0}", text_.data());
    return makeError(kind, "the target's {0} failed with status {1}", function, int(status));
  }

private:
  std::array<char, 4096> text_ = {};
};

// Asks the program once for every kind of call.
class Workspaces {
public:
  explicit Workspaces(const isthmus_target &target) : target_(target) {}
  llvm::Expected<int64_t> operator()(const OpCall &call) {
    const std::string text = callText(call);
    const auto [known, isNew] = known_.try_emplace(text, 0);
    if (!isNew)
      return known->second;
    Message message;
    int64_t bytes = 0;
    const isthmus_status status = target_.workspace(target_.user, text.c_str(), text.size(), &bytes,
                                                    message.data(), message.capacity());
    if (status != ISTHMUS_OK)
      return message.error(status, "workspace");
    if (bytes < 0)
      return makeError("the target's workspace of {0} is {1} bytes, and is to be 0 or more",
                       known->first, bytes);
    return known->second = bytes;
  }

private:
  const isthmus_target target_;
  std::map<std::string, int64_t> known_;
};

// A folder that is removed with all that is in it.
class TemporaryFolder {
public:
  llvm::Error make() {
    if (std::error_code e = llvm::sys::fs::createUniqueDirectory("isthmus", path_))
      return makeError("no temporary folder can be made: {0}", e.message());
    return llvm::Error::success();
  }
  ~TemporaryFolder() {
    if (!path_.empty())
      llvm::sys::fs::remove_directories(path_);
  }
  std::string file(llvm::StringRef name) const {
    llvm::SmallString<128> path = path_;
    llvm::sys::path::append(path, name);
    return path.str().str();
  }

private:
  llvm::SmallString<128> path_;
};

} // namespace

llvm::Expected<Target> targetOf(const isthmus_target *given) {
  Target target;
  if (!given)
    return target;
  if (given->json) {
    auto parsed = parseTarget(given->json);
    if (!parsed)
      return parsed.takeError();
    target = std::move(*parsed);
  }
  if (given->workspace)
    target.workspace = [asked = std::make_shared<Workspaces>(*given)](const OpCall &call) {
      return (*asked)(call);
    };
  return target;
}

FirstStep firstStepOf(const isthmus_target &target, uint64_t seed) {
  return [target, seed](const Graph &g,
                        llvm::ArrayRef<ValueId> values) -> llvm::Expected<std::vector<double>> {
    TemporaryFolder folder;
    if (llvm::Error e = folder.make())
      return e;
    const std::string path = folder.file("step.isth");
    if (llvm::Error e = saveIsth(g, path))
      return e;
    std::vector<std::string> names;
    std::vector<const char *> pointers;
    for (ValueId v : values)
      names.push_back(g.valueName(v).str());
    for (const std::string &name : names)
      pointers.push_back(name.c_str());
    std::vector<double> found(values.size());
    Message message;
    const isthmus_status status =
        target.first_step(target.user, path.c_str(), seed, pointers.data(), pointers.size(),
                          found.data(), message.data(), message.capacity());
    if (status != ISTHMUS_OK)
      return message.error(status, "first_step");
    return found;
  };
}

} // namespace isthmus::c
