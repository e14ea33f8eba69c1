#include "ir/record.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

constexpr llvm::StringRef kPlannedBy[] = {"as written",         "none",       "speed",  "memory",
                                          "memory (frontiers)", "collection", "budget", "given"};
constexpr llvm::StringRef kModes[] = {"", "eval", "as_written"}; // by ModeSource

} // namespace

llvm::StringRef plannedByText(PlannedBy p) { return kPlannedBy[size_t(p)]; }

std::optional<PlannedBy> parsePlannedBy(llvm::StringRef text) {
  const auto *known = llvm::find(kPlannedBy, text);
  if (known == std::end(kPlannedBy))
    return std::nullopt;
  return PlannedBy(known - std::begin(kPlannedBy));
}

llvm::ArrayRef<AttrDef> recordDefs() {
  static const AttrDef defs[] = {
      {"bias", AttrKind::String, Attr(std::string()), "fused: products add their biases"},
      {"budget", AttrKind::Int, Attr(int64_t(0)), "bytes that the arena was to stay within"},
      {"layout", AttrKind::String, Attr(std::string()), "channels_last: of convolutions"},
      {"mode", AttrKind::String, Attr(std::string()), "eval or as_written, where asked for"},
      {"policy", AttrKind::String, Attr(std::string()), "that planned the graph"},
      {"target", AttrKind::String, Attr(std::string()), "for which it was planned"},
  };
  return defs;
}

Attrs recordAttrs(const GraphRecord &r) {
  Attrs a;
  auto text = [&](const char *name, llvm::StringRef value) {
    if (!value.empty())
      a.set(name, value.str());
  };
  text("policy", r.wasPlanned() ? plannedByText(r.policy) : "");
  text("target", r.target);
  if (r.budgetBytes)
    a.set("budget", *r.budgetBytes);
  text("layout", r.channelsLast ? "channels_last" : "");
  text("bias", r.fusedBias ? "fused" : "");
  text("mode", kModes[static_cast<size_t>(r.mode)]);
  return a;
}

llvm::Expected<GraphRecord> recordFrom(const Attrs &a) {
  GraphRecord r;
  auto text = [&](const char *name) { return a.find(name) ? a.getString(name) : std::string(); };
  if (const std::string policy = text("policy"); !policy.empty()) {
    const auto known = parsePlannedBy(policy);
    if (!known || *known == PlannedBy::Nothing)
      return makeError("record: 'policy' is one of {0}, or is not there; got '{1}'",
                       llvm::join(llvm::makeArrayRef(kPlannedBy).drop_front(), ", "), policy);
    r.policy = *known;
  }
  r.target = text("target");
  if (a.find("budget"))
    r.budgetBytes = a.getInt("budget");
  auto either = [&](const char *name, llvm::StringRef word, bool &isSo) -> llvm::Error {
    const std::string got = text(name);
    isSo = !got.empty();
    if (isSo && got != word)
      return makeError("record: '{0}' is '{1}' or is not there, got '{2}'", name, word, got);
    return llvm::Error::success();
  };
  if (llvm::Error e = either("layout", "channels_last", r.channelsLast))
    return e;
  if (llvm::Error e = either("bias", "fused", r.fusedBias))
    return e;
  const std::string mode = text("mode");
  const auto *known = llvm::find(kModes, llvm::StringRef(mode));
  if (known == std::end(kModes))
    return makeError("record: 'mode' is 'eval', 'as_written' or is not there, got '{0}'", mode);
  r.mode = static_cast<ModeSource>(known - std::begin(kModes));
  return r;
}

} // namespace isthmus
