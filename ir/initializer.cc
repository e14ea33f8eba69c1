#include "ir/initializer.h"

#include <cmath>

namespace isthmus {

using Kind = Initializer::Kind;

llvm::StringRef initializerName(Kind k) {
  static constexpr llvm::StringRef names[] = {"", "fill", "normal", "uniform", "data"};
  return names[static_cast<size_t>(k)];
}

llvm::ArrayRef<AttrDef> initializerArgs(Kind k) {
  // Created at first use and never destroyed, like the op table.
  static const auto &lists = *new std::vector<std::vector<AttrDef>>{
      {},
      {{"value", AttrKind::Float, {}, "the value of every element"}},
      {{"mean", AttrKind::Float, 0.0, "the mean"},
       {"std", AttrKind::Float, 1.0, "the standard deviation"},
       {"seed", AttrKind::Int, int64_t(0),
        "the seed of the numbers, together with the input's name"}},
      {{"low", AttrKind::Float, 0.0, "the lower bound"},
       {"high", AttrKind::Float, 1.0, "the upper bound"},
       {"seed", AttrKind::Int, int64_t(0),
        "the seed of the numbers, together with the input's name"}},
      {}};
  return lists[static_cast<size_t>(k)];
}

llvm::Error completeInitializer(Initializer &init, const Type &type) {
  if (init.kind == Kind::Data) {
    if (init.data && init.data.type != type)
      return makeError("data of {0} is given for an input of {1}", init.data.type.str(),
                       type.str());
    return llvm::Error::success();
  }
  llvm::StringRef name = initializerName(init.kind);
  if (llvm::Error e = completeAttrs(name, initializerArgs(init.kind), init.args))
    return e;
  bool draws = init.kind == Kind::Normal || init.kind == Kind::Uniform;
  if (draws && !isFloat(type.dtype))
    return makeError("'{0}' draws floating-point numbers, got an input of {1}", name, type.str());
  if (init.kind == Kind::Normal && !(init.args.getFloat("std") >= 0))
    return makeError("'normal' expects std >= 0, got {0}", floatText(init.args.getFloat("std")));
  if (init.kind == Kind::Uniform && !(init.args.getFloat("low") <= init.args.getFloat("high")))
    return makeError("'uniform' expects low <= high, got {0} and {1}",
                     floatText(init.args.getFloat("low")), floatText(init.args.getFloat("high")));
  return llvm::Error::success();
}

} // namespace isthmus
