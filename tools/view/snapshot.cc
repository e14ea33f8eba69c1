#include "tools/view/snapshot.h"

#include "ir/diagnostics.h"
#include "tools/view/pickle.h"
#include "llvm/ADT/StringSwitch.h"
#include <map>

namespace isthmus {
namespace {

using Kind = Pickle::Kind;
using Ref = Pickle::Ref;

class Reader {
public:
  explicit Reader(const Pickle &p) : p_(p) {}

  llvm::Expected<Snapshot> run() {
    const Ref *segments = p_.find(p_.root(), "segments"), *traces = nullptr;
    if (segments)
      traces = p_.find(p_.root(), "device_traces");
    if (!segments || !isList(*segments) || (traces && !isList(*traces)))
      return makeError("expected a snapshot of torch.cuda.memory: a dictionary with the lists "
                       "'segments' and 'device_traces', found {0}{1}",
                       Pickle::kindText(p_.kind(p_.root())),
                       p_.kind(p_.root()) == Kind::Dict ? " without them" : "");
    if (!chooseDevice(*segments, traces))
      return makeError("{0}", why_);
    for (size_t i = 0; i < p_.items(*segments).size(); ++i)
      if (!addSegment(p_.items(*segments)[i], "segments[" + std::to_string(i) + "]"))
        return makeError("{0}", why_);
    if (traces && out_.device < p_.items(*traces).size())
      if (!addTrace(p_.items(*traces)[out_.device],
                    "device_traces[" + std::to_string(out_.device) + "]"))
        return makeError("{0}", why_);
    return std::move(out_);
  }

private:
  static constexpr int64_t kMost = int64_t(1) << 62;
  static constexpr size_t kMostDevices = 4096, kMostFrames = 32;

  bool isList(Ref r) const { return p_.kind(r) == Kind::List; }

  bool fail(const std::string &where, const char *expected, const Ref *found) {
    why_ = where + ": expected " + expected + ", found " +
           (found ? Pickle::kindText(p_.kind(*found)).str() : "nothing");
    if (found && p_.kind(*found) == Kind::Int)
      why_ = where + ": expected " + expected + ", found " + std::to_string(p_.number(*found));
    return false;
  }

  // An integer from 0 to 2^62; `byDefault` where the key is absent, unless that is null.
  bool number(Ref dict, const char *key, const std::string &where, int64_t &out,
              const int64_t *byDefault = nullptr) {
    const Ref *r = p_.find(dict, key);
    if (!r && byDefault) {
      out = *byDefault;
      return true;
    }
    if (!r || p_.kind(*r) != Kind::Int || p_.number(*r) < 0 || p_.number(*r) > kMost)
      return fail(where + "." + key, "a number from 0 to 2^62", r);
    out = p_.number(*r);
    return true;
  }

  llvm::StringRef text(Ref dict, const char *key) const {
    const Ref *r = p_.find(dict, key);
    return r && p_.kind(*r) == Kind::Text ? p_.text(*r) : "";
  }

  // The device with the most bytes in segments; without segments that with the longest trace.
  bool chooseDevice(Ref segments, const Ref *traces) {
    std::vector<std::pair<int64_t, size_t>> weight; // by device: bytes, events
    for (size_t i = 0; i < p_.items(segments).size(); ++i) {
      const std::string where = "segments[" + std::to_string(i) + "]";
      const Ref segment = p_.items(segments)[i];
      int64_t device = 0, bytes = 0;
      const int64_t none = 0;
      if (p_.kind(segment) != Kind::Dict)
        return fail(where, "a dictionary", &segment);
      if (!number(segment, "device", where, device, &none) ||
          !number(segment, "total_size", where, bytes))
        return false;
      if (device >= int64_t(kMostDevices))
        return fail(where + ".device", "a number of a device", p_.find(segment, "device"));
      weight.resize(std::max(weight.size(), size_t(device) + 1));
      weight[size_t(device)].first = std::min(kMost, weight[size_t(device)].first + bytes);
    }
    if (traces)
      for (size_t d = 0; d < std::min(kMostDevices, p_.items(*traces).size()); ++d) {
        const Ref trace = p_.items(*traces)[d];
        if (!isList(trace))
          return fail("device_traces[" + std::to_string(d) + "]", "a list", &trace);
        weight.resize(std::max(weight.size(), d + 1));
        weight[d].second = p_.items(trace).size();
      }
    for (size_t d = 0; d < weight.size(); ++d) {
      out_.devices += weight[d].first || weight[d].second;
      if (weight[d] > weight[out_.device])
        out_.device = d;
    }
    return true;
  }

  bool addSegment(Ref segment, const std::string &where) {
    int64_t device = 0, address = 0;
    const int64_t none = 0;
    Snapshot::Segment s;
    if (!number(segment, "device", where, device, &none))
      return false;
    if (size_t(device) != out_.device)
      return true;
    if (!number(segment, "address", where, address) ||
        !number(segment, "total_size", where, s.bytes))
      return false;
    s.address = uint64_t(address);
    const Ref *blocks = p_.find(segment, "blocks");
    if (!blocks || !isList(*blocks))
      return fail(where + ".blocks", "a list", blocks);
    int64_t next = address; // old snapshots have no addresses of blocks
    for (size_t k = 0; k < p_.items(*blocks).size(); ++k)
      if (!addBlock(s, p_.items(*blocks)[k], where + ".blocks[" + std::to_string(k) + "]", next))
        return false;
    out_.segments.push_back(std::move(s));
    return true;
  }

  bool addBlock(Snapshot::Segment &s, Ref block, const std::string &where, int64_t &next) {
    if (p_.kind(block) != Kind::Dict)
      return fail(where, "a dictionary", &block);
    int64_t size = 0, address = 0, bytes = 0;
    const int64_t byDefault = next;
    if (!number(block, "size", where, size) ||
        !number(block, "address", where, address, &byDefault) ||
        !number(block, "requested_size", where, bytes, &size))
      return false;
    next = std::min(kMost, address + size);
    const llvm::StringRef state = text(block, "state");
    if (state != "active_allocated" && state != "active_pending_free" &&
        state != "active_awaiting_free" && state != "inactive")
      return fail(where + ".state", "the state of a block", p_.find(block, "state"));
    if (state != "inactive")
      s.blocks.push_back(
          {uint64_t(address), bytes ? bytes : size, state != "active_allocated", pathOf(block)});
    return true;
  }

  bool addTrace(Ref trace, const std::string &where) {
    for (size_t i = 0; i < p_.items(trace).size(); ++i) {
      const std::string at = where + "[" + std::to_string(i) + "]";
      const Ref event = p_.items(trace)[i];
      if (p_.kind(event) != Kind::Dict)
        return fail(at, "a dictionary", &event);
      if (!addEvent(event, at))
        return false;
    }
    return true;
  }

  bool addEvent(Ref event, const std::string &where) {
    using Action = Snapshot::Action;
    Snapshot::Event e;
    e.text = text(event, "action").str();
    if (e.text.empty())
      return fail(where + ".action", "a text", p_.find(event, "action"));
    e.action = llvm::StringSwitch<Action>(e.text)
                   .Case("alloc", Action::Alloc)
                   .Case("free_requested", Action::FreeRequested)
                   .Cases("free_completed", "free", Action::FreeCompleted)
                   .Case("segment_alloc", Action::SegmentAlloc)
                   .Case("segment_free", Action::SegmentFree)
                   .Case("segment_map", Action::SegmentMap)
                   .Case("segment_unmap", Action::SegmentUnmap)
                   .Default(Action::Other);
    int64_t address = 0;
    const int64_t none = 0;
    const bool isPlaced = e.action != Action::Other;
    if (isPlaced &&
        (!number(event, "addr", where, address) || !number(event, "size", where, e.bytes)))
      return false;
    if (!number(event, "time_us", where, e.timeUs, &none))
      return false;
    e.address = uint64_t(address);
    e.path = pathOf(event);
    out_.trace.push_back(std::move(e));
    return true;
  }

  // Lines of the program, without those of PyTorch and of Python, if others are left.
  std::string pathOf(Ref of) {
    const Ref *frames = p_.find(of, "frames");
    if (!frames || !isList(*frames))
      return "";
    const auto [known, isNew] = paths_.try_emplace(*frames);
    if (!isNew)
      return known->second;
    std::vector<std::string> own, other;
    for (Ref frame : p_.items(*frames)) {
      const llvm::StringRef file = text(frame, "filename"), name = text(frame, "name");
      const Ref *line = p_.find(frame, "line");
      std::string part = file.substr(file.rfind('/') + 1).str();
      if (line && p_.kind(*line) == Kind::Int)
        part += ":" + std::to_string(p_.number(*line));
      part += (part.empty() ? "" : " ") + name.str();
      for (char &c : part)
        c = c == Snapshot::kDivider ? ' ' : c;
      const bool isOwn = file.endswith(".py") && !file.contains("/torch/");
      (isOwn ? own : other).push_back(std::move(part));
    }
    std::vector<std::string> &shown = own.empty() ? other : own;
    if (shown.size() > kMostFrames)
      shown.resize(kMostFrames); // the innermost ones
    for (size_t i = shown.size(); i-- > 0;)
      known->second += shown[i] + (i ? std::string(1, Snapshot::kDivider) : "");
    return known->second;
  }

  const Pickle &p_;
  Snapshot out_;
  std::map<Ref, std::string> paths_; // by list of frames, which events share
  std::string why_;
};

} // namespace

llvm::Expected<Snapshot> readSnapshot(llvm::StringRef data) {
  auto pickle = Pickle::parse(data);
  if (!pickle)
    return pickle.takeError();
  return Reader(*pickle).run();
}

bool isSnapshotName(llvm::StringRef path) {
  return path.endswith(".pickle") || path.endswith(".pkl");
}

} // namespace isthmus
