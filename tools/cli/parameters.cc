#include "tools/cli/parameters.h"

#include "ir/float_range.h"
#include "ir/safetensors.h"
#include "passes/rebuild.h"
#include "tools/cli/console.h"
#include "tools/train/checkpoint.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

constexpr size_t kMostNamed = 3;

bool isCarried(const Input &input) {
  return input.kind == InputKind::Param || input.kind == InputKind::State;
}

class Loading {
public:
  Loading(const Graph &g, const Safetensors &file, const std::string &path)
      : g_(g), file_(file), path_(path), r_(g) {
    for (const Safetensors::Entry &e : file.entries())
      known_.insert({e.name, false});
  }

  llvm::Expected<Graph> run() {
    if (llvm::Error e = checkIsComplete())
      return e;
    for (const Input &input : g_.inputs())
      if (llvm::Error e = copy(input))
        return e;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      r_.copyNode(NodeId(i));
    tell();
    return r_.finish();
  }

private:
  llvm::Error checkIsComplete() const {
    std::vector<std::string> missing;
    for (const Input &input : g_.inputs())
      if (input.kind == InputKind::Param && !known_.count(g_.valueName(input.value)))
        missing.push_back("'" + g_.valueName(input.value).str() + "'");
    if (missing.empty())
      return llvm::Error::success();
    const size_t rest = missing.size() - std::min(missing.size(), kMostNamed);
    missing.resize(missing.size() - rest);
    return makeError("{0}: expected a tensor for each of the model's parameters, and there is none "
                     "for {1}{2}; is it a file of this model?",
                     path_, llvm::join(missing, ", "),
                     rest ? " and " + std::to_string(rest) + " others" : "");
  }

  llvm::Error copy(const Input &input) {
    const Type &type = g_.type(input.value);
    auto known = known_.find(g_.valueName(input.value));
    if (!isCarried(input) || known == known_.end()) {
      r_.copyInput(input, type, input.init);
      return llvm::Error::success();
    }
    known->second = true;
    auto t = file_.find(known->first());
    if (!t)
      return t.takeError();
    const bool rounds =
        t->type.dtype != type.dtype && isFloat(t->type.dtype) && isFloat(type.dtype);
    if (t->type.dims != type.dims || (t->type.dtype != type.dtype && !rounds))
      return makeError("{0}: '{1}' is of type {2} in the model, and of type {3} here", path_,
                       known->first(), type.str(), t->type.str());
    Initializer init;
    init.kind = Initializer::Kind::Data;
    init.data = rounds ? roundedTo(*t, type.dtype) : std::move(*t);
    rounded_ += rounds;
    r_.copyInput(input, type, std::move(init));
    return llvm::Error::success();
  }

  void tell() const {
    auto note = [&](size_t count, const char *what) {
      if (count > 0)
        Console::get().note(llvm::formatv("{0}: {1} tensors {2}", path_, count, what).str());
    };
    note(rounded_, "are of another precision than the model's, and were rounded to that");
    if (!isCheckpoint(file_)) // a checkpoint also holds the optimizer's state
      note(size_t(llvm::count_if(known_, [](const auto &each) { return !each.second; })),
           "are not in the model, and were left out");
  }

  const Graph &g_;
  const Safetensors &file_;
  const std::string &path_;
  Rebuilder r_;
  llvm::StringMap<bool> known_; // the file's tensors, and whether the graph takes them
  size_t rounded_ = 0;
};

} // namespace

llvm::Expected<Graph> withParameters(const Graph &g, const std::string &path) {
  auto file = Safetensors::open(path);
  if (!file)
    return file.takeError();
  if (llvm::Error e = file->checkDigest())
    return e;
  return Loading(g, *file, path).run();
}

} // namespace isthmus
