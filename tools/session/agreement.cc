#include "tools/session/agreement.h"

#include "ir/spelling.h"
#include "ir/text/printer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/xxhash.h"
#include <cstring>

namespace isthmus {
namespace {

// A text of bounded length. Sent as it is.
template <size_t kSize> struct Text {
  char text[kSize] = {};
  Text() = default;
  Text(llvm::StringRef t) { std::memcpy(text, t.data(), std::min(t.size(), kSize - 1)); }
  llvm::StringRef str() const { return text; }
};

// What one process has. Sent as it is.
struct Record {
  uint64_t digest = 0;
  Text<120> target, host;
};

// By rank.
template <typename T> llvm::Expected<std::vector<T>> ofAll(const T &own, ProcessGroup &group) {
  std::vector<T> all(group.size());
  if (llvm::Error e = group.allGather(&own, sizeof own, all.data()))
    return e;
  return all;
}

// By rank and place.
llvm::Expected<std::vector<uint64_t>> ofAll(const std::vector<uint64_t> &own, ProcessGroup &group) {
  std::vector<uint64_t> all(own.size() * group.size());
  if (own.empty())
    return all;
  if (llvm::Error e = group.allGather(own.data(), int64_t(own.size() * sizeof own[0]), all.data()))
    return e;
  return all;
}

llvm::Expected<std::vector<Record>> recordsOfAll(llvm::StringRef text, llvm::StringRef target,
                                                 ProcessGroup &group) {
  return ofAll(Record{llvm::xxHash64(text), target, llvm::StringRef(group.host())}, group);
}

// Whether all processes have the same number here.
llvm::Expected<bool> isShared(uint64_t own, ProcessGroup &group) {
  auto all = ofAll(own, group);
  if (!all)
    return all.takeError();
  return llvm::all_of(*all, [&](uint64_t each) { return each == all->front(); });
}

// A digest that is never 0, which stands for nothing.
uint64_t digestOf(llvm::StringRef bytes) { return std::max<uint64_t>(1, llvm::xxHash64(bytes)); }

// What processes have at one place of their lists.
struct Entry {
  uint64_t digest = 0; // 0: the process has nothing there
  Text<120> host;
  Text<280> value;
};

// "rank 0 on a ...; rank 1 on b ...": the first process that has something, and those that differ
// from it.
std::string differingText(llvm::ArrayRef<Entry> all) {
  constexpr size_t kMost = 4;
  const auto first = llvm::find_if(all, [](const Entry &e) { return e.digest != 0; });
  std::string text;
  size_t count = 0;
  for (const Entry &e : all) {
    if (&e != first && (e.digest == 0 || e.digest == first->digest))
      continue;
    if (count++ < kMost)
      text += llvm::formatv("{0}rank {1} on {2} has it {3}", count > 1 ? "; " : "", &e - all.data(),
                            e.host.str(), e.value.str())
                  .str();
  }
  return count > kMost ? text + llvm::formatv("; and {0} others differ", count - kMost).str()
                       : text;
}

// The first place where two processes that have something differ, how many others there are, and
// what each process has there. Nothing: all agree.
struct Difference {
  size_t first = 0, others = 0;
  std::vector<Entry> entries; // by rank
};
llvm::Expected<std::optional<Difference>>
differenceIn(const std::vector<uint64_t> &own, llvm::function_ref<std::string(size_t)> valueAt,
             ProcessGroup &group) {
  auto all = ofAll(own, group);
  if (!all)
    return all.takeError();
  std::vector<size_t> places;
  for (size_t i = 0; i < own.size(); ++i) {
    uint64_t first = 0;
    bool differs = false;
    for (size_t rank = 0; rank < group.size(); ++rank) {
      const uint64_t digest = (*all)[rank * own.size() + i];
      differs |= first != 0 && digest != 0 && digest != first;
      first = first ? first : digest;
    }
    if (differs)
      places.push_back(i);
  }
  if (places.empty())
    return std::nullopt;
  const size_t i = places.front();
  auto entries =
      ofAll(Entry{own[i], llvm::StringRef(group.host()), llvm::StringRef(valueAt(i))}, group);
  if (!entries)
    return entries.takeError();
  return Difference{i, places.size() - 1, std::move(*entries)};
}

std::string othersText(size_t count, llvm::StringRef what) {
  return count == 0
             ? ""
             : llvm::formatv(" ({0} other{1} {2} too)", count, count > 1 ? "s" : "", what).str();
}

} // namespace

llvm::Error checkAllCompiled(const Graph &g, llvm::StringRef target, ProcessGroup &group) {
  auto all = recordsOfAll(graphText(g), target, group);
  if (!all)
    return all.takeError();
  const Record &first = all->front();
  for (size_t i = 1; i < all->size(); ++i) {
    const Record &other = (*all)[i];
    if (other.target.str() != first.target.str())
      return makeError("rank {0} on {1} has compiled the step for '{2}', and rank 0 on {3} for "
                       "'{4}'; all processes need processors of one type and the same --threads",
                       i, other.host.str(), other.target.str(), first.host.str(),
                       first.target.str());
    if (other.digest != first.digest)
      return makeError("rank {0} on {1} has compiled another step than rank 0 on {2}; give all "
                       "processes the same command, files and version of isthmus",
                       i, other.host.str(), first.host.str());
  }
  return llvm::Error::success();
}

llvm::Error checkAllHold(const Graph &g, llvm::ArrayRef<Tensor> inputs,
                         llvm::ArrayRef<std::string> sources, uint64_t seed, ProcessGroup &group) {
  std::string names;
  for (const Input &in : g.inputs())
    names += g.valueName(in.value).str() + " " + g.type(in.value).str() + "\n";
  auto isAlike = isShared(digestOf(names), group);
  if (!isAlike || !*isAlike)
    return isAlike.takeError();
  std::vector<uint64_t> digests(g.inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const Tensor &t = inputs[i])
      digests[i] = digestOf(llvm::StringRef(t.data, size_t(t.bytes())));
  const auto sourceOf = [&](size_t i) {
    return i < sources.size() ? sources[i] : std::string("as this run has made it");
  };
  auto difference = differenceIn(digests, sourceOf, group);
  if (!difference)
    return difference.takeError();
  if (const auto &d = *difference)
    return makeError("'{0}' is not the same in all processes: {1}{2}; give all processes the same "
                     "inputs, weights and --seed",
                     valueText(g.valueName(g.inputs()[d->first].value)), differingText(d->entries),
                     othersText(d->others, "of its inputs differ"));
  const NamedFact given[] = {{"--seed", std::to_string(seed)}}; // of random ops
  return checkAllHave(given, "options", group);
}

llvm::Error checkAllHave(llvm::ArrayRef<NamedFact> facts, llvm::StringRef what,
                         ProcessGroup &group) {
  std::string names;
  std::vector<uint64_t> digests;
  for (const NamedFact &f : facts) {
    names += f.name + "\n";
    digests.push_back(digestOf(f.value));
  }
  auto isAlike = isShared(digestOf(names), group);
  if (!isAlike)
    return isAlike.takeError();
  if (!*isAlike)
    return makeError("the processes do not run the same kind of step; give all of them the same "
                     "command and files");
  auto difference = differenceIn(
      digests, [&](size_t i) { return facts[i].value + facts[i].from; }, group);
  if (!difference || !*difference)
    return difference.takeError();
  const Difference &d = **difference;
  size_t other = 1;
  while (d.entries[other].digest == d.entries[0].digest)
    ++other;
  return makeError("rank {0} on {1} has other {2} than rank 0 on {3}: {4} is not the same: {5}{6}; "
                   "give all processes the same command and files",
                   other, d.entries[other].host.str(), what, d.entries[0].host.str(),
                   facts[d.first].name, differingText(d.entries), othersText(d.others, "differ"));
}

} // namespace isthmus
