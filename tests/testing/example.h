// A call in the text form of the op table's examples, with random operands.
#pragma once

#include "ir/text/parser.h"
#include "tools/random/draw.h"

namespace isthmus {

struct Example {
  CallText text;
  OpCall call; // its `attrs` point into `text`
  Example() = default;
  Example(const Example &) = delete;
};

// A call that does not parse, or whose types cannot be inferred, ends the test program: the
// examples are part of the program.
inline std::unique_ptr<Example> parseExample(llvm::StringRef text) {
  auto e = std::make_unique<Example>();
  e->text = llvm::cantFail(parseCall(text));
  e->call.op = e->text.op;
  e->call.attrs = &e->text.attrs;
  e->call.operands.assign(e->text.operands.begin(), e->text.operands.end());
  auto results = inferTypes(*e->text.op, e->text.attrs, e->text.operands);
  if (!results) {
    llvm::errs() << text << ": " << llvm::toString(results.takeError()) << "\n";
    std::abort();
  }
  e->call.results.assign(results->begin(), results->end());
  return e;
}

// Random operands: floats from the row's interval, and indices below their bound. A call always
// gets the same ones.
inline std::vector<Tensor> drawOperands(const Example &e) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < e.call.operands.size(); ++i) {
    DrawRange range{e.call.op->low, e.call.op->high};
    if (e.call.op->indexBound)
      range.bound = e.call.op->indexBound(e.call, i).value_or(range.bound);
    out.push_back(draw(e.call.operands[i], 1000 * e.call.operands[i].elements() + i, range));
  }
  return out;
}

} // namespace isthmus
