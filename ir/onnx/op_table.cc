#include "ir/onnx/op_table.h"

#include "ir/check.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus::onnx_import {
namespace {

using Table = llvm::StringMap<llvm::SmallVector<const OnnxOp *, 2>>;

const Table &table() {
  static const Table *const t = [] {
    auto *made = new Table;
    for (OpRows rows : {elementwiseOps(), constantOps(),       shapeOps(),
                        indexingOps(),    reduceOps(),         matmulOps(),
                        convOps(),        poolOps(),           normOps(),
                        softmaxOps(),     randomOps(),         attentionOps(),
                        resizeOps(),      mathOps(),           activationOps(),
                        scatterOps(),     orderOps(),          einsumOps(),
                        controlOps(),     sequenceOps(),       padOps(),
                        gridOps(),        deformOps(),         roiOps(),
                        signalOps(),      lossOps(),           recurrentOps(),
                        optimizerOps(),   linearAttentionOps()})
      for (const OnnxOp &row : rows) {
        auto &known = (*made)[row.name];
        ISTHMUS_CHECK(llvm::none_of(known, [&](const OnnxOp *k) { return k->since == row.since; }),
                      "two rows of one operator begin at the same opset");
        known.push_back(&row);
      }
    return made;
  }();
  return *t;
}

} // namespace

std::string opName(const onnx::NodeProto &n) {
  return isDefaultDomain(n.domain()) ? n.op_type() : n.domain() + "." + n.op_type();
}

const OnnxOp *findOp(llvm::StringRef name, int64_t opset) {
  auto it = table().find(name);
  if (it == table().end())
    return nullptr;
  const OnnxOp *best = nullptr;
  for (const OnnxOp *row : it->second)
    if (row->since <= opset && (!best || row->since > best->since))
      best = row;
  return best;
}

std::string nearOps(llvm::StringRef name) {
  if (name.size() > 64) // too long for a misspelling
    return "";
  std::vector<llvm::StringRef> known;
  for (const auto &entry : table())
    known.push_back(entry.first());
  llvm::sort(known);
  return didYouMean(name, known);
}

} // namespace isthmus::onnx_import
