// Where tensors have their channels: [N, C, spatial...], or, of rows with the attribute
// `channels_last` set, [N, spatial..., C]. Weights [O, C / groups, kernel...] are laid out alike,
// and tensors of rank two or less are the same either way.
#pragma once

#include "ir/op_def.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace isthmus {

constexpr const char *kChannelsLast = "channels_last";

inline AttrDef channelsLastAttr() {
  return {kChannelsLast, AttrKind::Bool, false,
          "whether all operands and results of three axes or more have axis 1 as their last"};
}
// False of rows that have no such attribute.
inline bool isChannelsLast(const Attrs &attrs) {
  const Attr *a = attrs.find(kChannelsLast);
  return a && std::get<bool>(*a);
}
inline int64_t channelAxis(const Attrs &attrs, int64_t rank) {
  return isChannelsLast(attrs) ? rank - 1 : 1;
}

// What a transpose takes that moves axis 1 to the end, and back.
Ints toChannelsLast(int64_t rank);
Ints toChannelsFirst(int64_t rank);
Type channelsLast(const Type &t);
Type channelsFirst(const Type &t);

// The types of a call of such a row as they would be with axis 1 in its place: what sizes are read
// from. The attributes stay.
OpCall channelsFirst(const OpCall &c);

// A shape rule that is written for channels on axis 1, for either place.
using ShapeRule = llvm::function_ref<llvm::Expected<TypeList>(const InferContext &)>;
llvm::Expected<TypeList> inferEitherWay(const InferContext &c, ShapeRule rule);

} // namespace isthmus
