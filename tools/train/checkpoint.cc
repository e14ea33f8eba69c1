#include "tools/train/checkpoint.h"

#include "ir/element.h"
#include "ir/json.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"
#include <cmath>

namespace isthmus {
namespace {

// Keys of the file's metadata.
constexpr const char *kStep = "isthmus.step", *kEpoch = "isthmus.epoch",
                     *kPosition = "isthmus.position", *kSeed = "isthmus.seed",
                     *kExamples = "isthmus.examples", *kBatch = "isthmus.batch",
                     *kOptimizer = "isthmus.optimizer", *kCheck = "isthmus.check",
                     *kNotInverted = "isthmus.not_inverted"; // [[STEP, VALUE], ...]
constexpr llvm::StringLiteral kRun("isthmus.run."); // before the name of an entry of the record

std::vector<ValueId> carriedBy(const Graph &g) {
  std::vector<ValueId> out;
  for (const Input &input : g.inputs())
    if (input.kind == InputKind::Param || input.kind == InputKind::State)
      out.push_back(input.value);
  return out;
}

bool isFinite(const Tensor &t) {
  for (int64_t i = 0, n = t.type.elements(); i < n; ++i)
    if (!std::isfinite(elementAsDouble(t, i)))
      return false;
  return true;
}

template <typename Number>
llvm::Error readNumber(const Safetensors &file, llvm::StringRef path, const char *key,
                       Number &number) {
  auto it = file.metadata().find(key);
  if (it == file.metadata().end() || llvm::StringRef(it->second).getAsInteger(10, number))
    return makeError("{0}: expected a file that `train --save` wrote, and its metadata has no "
                     "number '{1}'",
                     path, key);
  return llvm::Error::success();
}

std::string notInvertedText(const std::vector<NotInverted> &all) {
  nlohmann::json list = nlohmann::json::array();
  for (const NotInverted &n : all)
    list.push_back({n.step, n.value});
  return jsonText(list);
}

llvm::Error readNotInverted(llvm::StringRef path, const std::string &text,
                            std::vector<NotInverted> &out) {
  auto list = parseJson(text, /*deepest=*/2);
  if (!list)
    return locate(list.takeError(), path);
  for (const nlohmann::json &each : *list) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_number_integer() ||
        !each[1].is_string())
      return makeError("{0}: expected pairs of a step and a value's name in its metadata '{1}', "
                       "found {2}",
                       path, kNotInverted, jsonText(each));
    out.push_back({each[1].get<std::string>(), each[0].get<int64_t>()});
  }
  return llvm::Error::success();
}

// A digest of the metadata themselves.
std::string checkOf(const std::map<std::string, std::string> &metadata) {
  std::string text;
  for (const auto &[key, value] : metadata)
    if (key != kCheck && key != kDigestKey)
      text += key + "=" + value + "\n";
  return llvm::formatv("{0:x-16}", llvm::xxHash64(text)).str();
}

llvm::Error differs(llvm::StringRef path, const char *what, const std::string &was,
                    const std::string &now) {
  return makeError("{0}: it was saved with {1} {2}, and this run has {3}; a run that goes on needs "
                   "the same",
                   path, what, was, now);
}

} // namespace

bool isCheckpoint(const Safetensors &file) { return file.metadata().count(kStep) > 0; }

llvm::Expected<Checkpoint> takeCheckpoint(const Graph &g, Session &session, const RunState &state) {
  Checkpoint c;
  for (ValueId v : carriedBy(g)) {
    auto t = session.fetch(v);
    if (!t)
      return t.takeError();
    if (isFloat(t->type.dtype) && !isFinite(*t))
      return makeError("after step {0} '%{1}' is not finite, so nothing is saved: the optimizer "
                       "diverged; give a smaller --lr, or --clip-norm",
                       state.step, g.valueName(v));
    c.tensors.push_back({g.valueName(v).str(), std::move(*t)});
  }
  c.metadata = {{kStep, std::to_string(state.step)},
                {kEpoch, std::to_string(state.epoch)},
                {kPosition, std::to_string(state.position)},
                {kSeed, std::to_string(state.seed)},
                {kExamples, std::to_string(state.examples)},
                {kBatch, std::to_string(state.batch)},
                {kOptimizer, state.optimizer}};
  for (const auto &[name, value] : state.record)
    c.metadata[kRun.str() + name] = value;
  if (!state.notInverted.empty())
    c.metadata[kNotInverted] = notInvertedText(state.notInverted);
  c.metadata[kCheck] = checkOf(c.metadata);
  return c;
}

llvm::Error writeCheckpoint(const std::string &path, const Checkpoint &checkpoint) {
  return writeSafetensors(path, checkpoint.tensors, checkpoint.metadata);
}

llvm::Expected<RunState> readCheckpoint(const std::string &path) {
  auto file = Safetensors::open(path);
  if (!file)
    return file.takeError();
  RunState s;
  for (auto [key, number] :
       {std::pair(kStep, &s.step), std::pair(kEpoch, &s.epoch), std::pair(kPosition, &s.position),
        std::pair(kExamples, &s.examples), std::pair(kBatch, &s.batch)})
    if (llvm::Error e = readNumber(*file, path, key, *number))
      return e;
  if (llvm::Error e = readNumber(*file, path, kSeed, s.seed))
    return e;
  if (auto it = file->metadata().find(kOptimizer); it != file->metadata().end())
    s.optimizer = it->second;
  if (auto it = file->metadata().find(kCheck);
      it != file->metadata().end() && it->second != checkOf(file->metadata()))
    return makeError("{0}: its metadata are not those that `train --save` wrote: expected the "
                     "digest '{1}', found '{2}'; take a copy that is not damaged",
                     path, it->second, checkOf(file->metadata()));
  if (llvm::Error e = file->checkDigest())
    return e;
  if (auto it = file->metadata().find(kNotInverted); it != file->metadata().end())
    if (llvm::Error e = readNotInverted(path, it->second, s.notInverted))
      return e;
  for (const auto &[key, value] : file->metadata())
    if (llvm::StringRef name = key; name.consume_front(kRun))
      s.record.emplace_back(name.str(), value);
  return s;
}

llvm::Error checkGoesOn(const std::string &path, const RunState &saved, const RunState &now) {
  if (saved.optimizer != now.optimizer)
    return differs(path, "--optimizer", saved.optimizer, now.optimizer);
  if (saved.examples != now.examples)
    return differs(path, "examples:", std::to_string(saved.examples), std::to_string(now.examples));
  if (saved.batch != now.batch)
    return differs(path, "a batch of", std::to_string(saved.batch), std::to_string(now.batch));
  const int64_t each = now.examples / now.batch;
  if (saved.step < 0 || saved.epoch != saved.step / each ||
      saved.position != saved.step % each * now.batch)
    return makeError("{0}: step {1} of {2} a epoch is not where its metadata says, epoch {3} and "
                     "example {4}",
                     path, saved.step, each, saved.epoch, saved.position);
  return llvm::Error::success();
}

llvm::Error restore(const std::string &path, const Graph &g, Session &session) {
  auto file = Safetensors::open(path);
  if (!file)
    return file.takeError();
  llvm::StringSet<> taken;
  for (ValueId v : carriedBy(g)) {
    auto t = file->find(g.valueName(v));
    if (!t)
      return addNote(t.takeError(), "it does not belong to this model and optimizer");
    if (llvm::Error failed = session.feed(v, *t))
      return locate(std::move(failed), path);
    taken.insert(g.valueName(v));
  }
  for (const Safetensors::Entry &entry : file->entries())
    if (!taken.count(entry.name))
      return makeError("{0}: '{1}' does not belong to this model and optimizer", path, entry.name);
  return llvm::Error::success();
}

} // namespace isthmus
