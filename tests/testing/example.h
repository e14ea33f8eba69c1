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

// Whether the call, in the text form, has types that its row allows.
inline bool isTaken(llvm::StringRef text) {
  CallText call = llvm::cantFail(parseCall(text));
  auto types = inferTypes(*call.op, call.attrs, call.operands);
  if (types)
    return true;
  llvm::consumeError(types.takeError());
  return false;
}

// The example in another element type. Rows that keep f32 statistics beside 16-bit values do not
// accept 16-bit types for all operands; then the fewest operands that suffice are f32.
inline std::string inType(const std::string &text, const std::string &name) {
  std::vector<size_t> places;
  for (size_t at = 0; (at = text.find("f64", at)) != std::string::npos; at += 3)
    places.push_back(at);
  for (int wide = 0; wide <= int(places.size()); ++wide)
    for (unsigned mask = 0; mask < 1u << places.size(); ++mask) {
      if (__builtin_popcount(mask) != wide)
        continue;
      std::string out = text;
      for (size_t i = places.size(); i-- > 0;)
        out.replace(places[i], 3, mask >> i & 1 ? "f32" : name);
      if (isTaken(out))
        return out;
    }
  return text;
}

} // namespace isthmus
