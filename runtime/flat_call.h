// Calls as they cross the C interface of a device's library.
#pragma once

#include "ir/op_def.h"
#include "runtime/cuda_interface.h"
#include <deque>

namespace isthmus {

// Points into `call`, which must stay as it is while the view is used.
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

// The call with its attributes, from the other side. An error names an op that the table lacks.
struct OwnedCall {
  Attrs attrs;
  OpCall call; // of `attrs`
};
llvm::Expected<std::unique_ptr<OwnedCall>> fromFlat(const IsthmusCall &flat);

} // namespace isthmus
