// Converts op calls to and from the C interface of a device's library.
#pragma once

#include "ir/op_def.h"
#include "runtime/cuda_interface.h"
#include <deque>

namespace isthmus {

// A C view of `call`, which must not change or end while the view is used.
class FlatCall {
public:
  explicit FlatCall(const OpCall &call);
  FlatCall(const FlatCall &) = delete;
  const IsthmusCall &view() const { return view_; }

private:
  std::vector<IsthmusAttr> attrs_;
  std::vector<IsthmusType> types_;
  std::deque<uint8_t> bools_;
  IsthmusCall view_;
};

// Rebuilds a call, with its attributes, on the library's side. An error names an op that the op
// table lacks.
struct OwnedCall {
  Attrs attrs;
  OpCall call; // points to `attrs`
};
llvm::Expected<std::unique_ptr<OwnedCall>> fromFlat(const IsthmusCall &flat);

} // namespace isthmus
