// The channel axis: [N, C, spatial...], or [N, spatial..., C] for rows with the attribute
// `channels_last` set. Weights [O, C / groups, kernel...] are permuted alike; tensors of rank two
// or less are the same in both forms.
#pragma once

#include "ir/op_def.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace isthmus {

constexpr const char *kChannelsLast = "channels_last";

inline AttrDef channelsLastAttr() {
  return {kChannelsLast, AttrKind::Bool, false,
          "whether axis 1 comes last in all operands and results of three axes or more"};
}
// False for rows without the attribute.
inline bool isChannelsLast(const Attrs &attrs) {
  const Attr *a = attrs.find(kChannelsLast);
  return a && std::get<bool>(*a);
}
inline int64_t channelAxis(const Attrs &attrs, int64_t rank) {
  return isChannelsLast(attrs) ? rank - 1 : 1;
}

// The `perm` of the transpose that moves axis 1 to the end, and of the one that moves it back.
Ints toChannelsLast(int64_t rank);
Ints toChannelsFirst(int64_t rank);
Type channelsLast(const Type &t);
Type channelsFirst(const Type &t);

// The call with the types of all operands and results in channels-first form, to read sizes from.
// The attributes stay.
OpCall channelsFirst(const OpCall &c);

// Runs a shape rule that expects channels on axis 1, for a node in either form.
using ShapeRule = llvm::function_ref<llvm::Expected<TypeList>(const InferContext &)>;
llvm::Expected<TypeList> inferEitherWay(const InferContext &c, ShapeRule rule);

} // namespace isthmus
