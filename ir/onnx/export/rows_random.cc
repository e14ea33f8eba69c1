// Rows that draw random numbers, as standard operators. Another tool draws different numbers from
// the same distribution. The exporter does not use these forms for nodes that must draw the same
// numbers.

#include "ir/onnx/export/body.h"

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

Names draw(const RowWriter &w, const char *op, const char *first, const char *second,
           const char *secondInRow) {
  return {w.b.emit(op, {},
                   {{"dtype", int64_t(onnx_rows::elementCode(w.results[0].dtype))},
                    {"shape", w.attrs.getInts("dims")},
                    {first, w.attrs.getFloat(first)},
                    {second, w.attrs.getFloat(secondInRow)}})};
}
Names uniform(const RowWriter &w) { return draw(w, "RandomUniform", "low", "high", "high"); }
Names normal(const RowWriter &w) { return draw(w, "RandomNormal", "mean", "scale", "std"); }

Names dropout(const RowWriter &w) {
  if (!w.attrs.getBool("training") || w.attrs.getFloat("ratio") == 0)
    return {w.b.emit("Identity", {w.x(0)})};
  return {w.b.emit("Dropout", {w.x(0), w.b.number(DType::F32, w.attrs.getFloat("ratio")),
                               w.b.number(DType::Bool, 1)})};
}

constexpr ExportRow kRows[] = {{"uniform", uniform}, {"normal", normal}, {"dropout", dropout}};

} // namespace

ExportRows randomRows() { return kRows; }

} // namespace isthmus::onnx_export
