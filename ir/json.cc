#include "ir/json.h"

#include "llvm/ADT/StringSet.h"

namespace isthmus {

using Json = nlohmann::json;

namespace {

// Watches a parse for errors. The parser cannot be stopped, but this drops all values after an
// error.
class Watcher {
public:
  explicit Watcher(int deepest) : deepest_(deepest), keys_(size_t(deepest) + 2) {}

  bool keeps(int depth, Json::parse_event_t event, const Json &parsed) {
    if (depth > deepest_ && problem_.empty())
      problem_ = llvm::formatv("it is nested more than {0} deep", deepest_).str();
    if (!problem_.empty())
      return false;
    if (event == Json::parse_event_t::object_start)
      keys_[size_t(depth) + 1].clear();
    else if (event == Json::parse_event_t::key)
      addKey(size_t(depth), parsed.get_ref<const std::string &>());
    return problem_.empty();
  }

  const std::string &problem() const { return problem_; }

private:
  void addKey(size_t depth, const std::string &key) {
    if (!keys_[depth].insert(key).second)
      problem_ = "key '" + key + "' is given twice";
  }

  int deepest_;
  std::vector<llvm::StringSet<>> keys_; // of the open object at each depth
  std::string problem_;
};

} // namespace

llvm::Expected<Json> parseJson(llvm::StringRef text, int deepest) {
  Watcher watcher(deepest);
  auto keeps = [&](int depth, Json::parse_event_t event, Json &parsed) {
    return watcher.keeps(depth, event, parsed);
  };
  Json j = Json::parse(text.begin(), text.end(), keeps, /*allow_exceptions=*/false);
  if (!watcher.problem().empty())
    return makeError("expected JSON, and {0}", watcher.problem());
  if (j.is_discarded())
    return makeError("expected JSON; it cannot be parsed");
  return j;
}

} // namespace isthmus
