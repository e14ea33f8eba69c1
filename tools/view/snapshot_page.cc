#include "tools/view/snapshot_page.h"

#include "ir/diagnostics.h"
#include "tools/view/snapshot.h"

namespace isthmus {

llvm::Error addSnapshot(Page &page, const std::string &name, llvm::StringRef data) {
  auto in = [&](llvm::Error e) {
    return makeError("{0}: {1}", name, llvm::toString(std::move(e)));
  };
  auto snapshot = readSnapshot(data);
  if (!snapshot)
    return in(snapshot.takeError());
  auto found = stepOf(*snapshot);
  if (!found)
    return in(found.takeError());
  const SnapshotFigures &f = found->figures;
  page.add(name, std::move(found->step), Detail::Whole, nullptr);
  page.facts["steps"].back()["snapshot"] = {
      {"reserved_bytes", f.reservedBytes}, {"allocated_bytes", f.allocatedBytes},
      {"unused_bytes", f.unusedBytes},     {"segments", f.segments},
      {"events", snapshot->trace.size()},  {"out_of_memory", f.outOfMemory},
      {"unmatched", f.unmatched},          {"device", snapshot->device},
      {"devices", snapshot->devices}};
  return llvm::Error::success();
}

} // namespace isthmus
