// The text form: a printed graph is read back as it was, and a canonical text is printed unchanged.

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include <gtest/gtest.h>

using namespace isthmus;

namespace {

Graph parsed(llvm::StringRef text) {
  auto g = parseGraph(text, "test.isth");
  if (g)
    return std::move(*g);
  ADD_FAILURE() << llvm::toString(g.takeError());
  return Graph();
}

void expectCanonical(const std::string &text) {
  Graph g = parsed(text);
  EXPECT_EQ(graphText(g), text);
  std::string reason;
  EXPECT_TRUE(equalGraphs(g, parsed(graphText(g)), &reason)) << reason;
  EXPECT_EQ(llvm::toString(verify(g)), "");
}

TEST(Text, EveryClause) {
  expectCanonical(R"isth(isthmus 2
weights "mlp weights.safetensors" digest "0123456789abcdef"
record {bias = fused, budget = 4096, layout = channels_last, mode = as_written, policy = "memory (frontiers)", target = "cpu avx2"}
meta answer = "42"
meta "odd key" = "a \22quoted\22 \\ value\0a"
graph @mlp {
  input %x : f32[32, 784]
  input %labels : i64[32]
  param %w : f32[784, 256] = normal {seed = 1, std = 0.05}
  param %w2 : f32[784, 256] = file "layers/0.w"
  param %u : f32[4] = uniform {high = 2.0, low = -2.0}
  param %n : f32[4] = normal
  state %s : f64[] = fill {value = 0.1}
  const %mask : bool[2] = [true, false]
  const %numbers : f32[2, 3] = [1.0, 0.1, -0.0, inf, -inf, nan]
  const %empty : i64[0] = []
  const %bf : bf16[2] = [1.0, 3.3895314e+38]
  const %hf : f16[3] = [65504.0, 5.9604645e-08, 0.099975586]
  const %"a/b:0" : u8[2] = [0, 255]
  %h = add(%w, %w2) : f32[784, 256] #checkpoint #other
  %h.re = add(%w, %w2) : f32[784, 256] backward from(clone(%h), at(0)) @cpu:0
  %h.sg = stop_gradient(%h) : f32[784, 256] backward from(boundary(%h))
  %"%r\e9" = relu(%h.sg) : f32[784, 256] update from(after(%h, %h.re))
  %g = gelu(%h) {approximate = tanh} : f32[784, 256]
  %c = clamp(%h) {max = 1.0} : f32[784, 256]
  %i = cast(%c) {type = i64} : i64[784, 256] from(at(17))
  loss %g
  output %g
  output %c gradient(%w)
  output %h gradient(%w, 2)
  output %"%r\e9" next(%w)
}
)isth");
}

// A type says in which memory a tensor lies, or that the value is a token.
TEST(Text, Transfers) {
  expectCanonical(R"(isthmus 2
graph @g {
  input %x : f32[8, 4]
  %h = exp(%x) : f32[8, 4]
  %h.host, %h.sent = copy_to_host(%h) : host f32[8, 4], token[] from(transfer(%h))
  %h.kept = wait(%h.host, %h.sent, %h) : host f32[8, 4] from(transfer(%h))
  %s, %s.sent = copy_to_host(%x) : host f32[8, 4], token[]
  %s.kept = wait(%s, %s.sent, %x, %h) : host f32[8, 4]
  %h.back, %h.got = copy_to_device(%h.kept) : f32[8, 4], token[] backward from(transfer(%h), after(%h))
  %h.again = wait(%h.back, %h.got, %h.kept) : f32[8, 4] backward from(transfer(%h))
  output %h.again
}
)");
}

// The parser of version 1 turns names, `meta` entries and old clauses that held facts into fields.
TEST(Text, Version1) {
  Graph g = parsed(R"(isthmus 1
meta answer = "42"
meta bias = "fused"
meta layout = "channels-last"
meta mode = "eval"
meta policy = "memory"
meta target = "cpu avx2"
graph @g {
  param %w : f32[2]
  state %s : f32[2]
  %a = exp(%w) : f32[2]
  %a.sg = stop_gradient(%a) : f32[2] backward boundary(%a) after(%a)
  %a.re = exp(%w) : f32[2] backward clone(%a) at(0)
  %grad.w = mul(%a.re, %a.sg) : f32[2] backward
  %grad2.w = neg(%grad.w) : f32[2] backward
  %state.s = neg(%s) : f32[2] update
  %grad.gone = neg(%s) : f32[2]
  output %grad.w
  output %grad2.w
  output %state.s
  output %grad.gone
}
)");
  EXPECT_EQ(graphText(g), R"(isthmus 2
record {bias = fused, layout = channels_last, mode = eval, policy = memory, target = "cpu avx2"}
meta answer = "42"
graph @g {
  param %w : f32[2]
  state %s : f32[2]
  %a = exp(%w) : f32[2]
  %a.sg = stop_gradient(%a) : f32[2] backward from(boundary(%a), after(%a))
  %a.re = exp(%w) : f32[2] backward from(clone(%a), at(0))
  %grad.w = mul(%a.re, %a.sg) : f32[2] backward
  %grad2.w = neg(%grad.w) : f32[2] backward
  %state.s = neg(%s) : f32[2] update
  %grad.gone = neg(%s) : f32[2]
  output %grad.w gradient(%w)
  output %grad2.w gradient(%w, 2)
  output %state.s next(%s)
  output %grad.gone
}
)");
}

TEST(Text, WhatMayBeLeftOutOrWrittenOtherwise) {
  Graph g = parsed(R"(// before all
isthmus 1 // and here

graph @g { // comment
  const %a : f32[2, 3] = [[1, 2, 3], // over lines
                          [4, 5, 6]]
  param %z : f32[] = zeros
  param %o : f32[] = ones
  %y = affine(%a) {shift = 1,
                   scale = 1.0}   // defaults may be given
  %b = add(%y,
    %z) #m backward
  output %b
}
// behind
)");
  EXPECT_EQ(graphText(g), R"(isthmus 2
graph @g {
  const %a : f32[2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  param %z : f32[] = fill {value = 0.0}
  param %o : f32[] = fill {value = 1.0}
  %y = affine(%a) {shift = 1.0} : f32[2, 3]
  %b = add(%y, %z) : f32[2, 3] backward #m
  output %b
}
)");
}

TEST(Text, NegativeZeroIsNotTheDefault) {
  expectCanonical(R"(isthmus 2
graph @g {
  input %x : f32[2]
  %y = affine(%x) {shift = -0.0} : f32[2]
  output %y
}
)");
}

// The metadata of other files hold initializers on their own.
TEST(Text, AnInitializerOnItsOwn) {
  auto init = parseInitializer("normal {std = 0.5, seed = 3}");
  ASSERT_TRUE(bool(init)) << llvm::toString(init.takeError());
  EXPECT_EQ(init->kind, Initializer::Kind::Normal);
  EXPECT_EQ(init->args.getFloat("std"), 0.5);
  for (const char *bad : {"", "file", "fill {std = 1.0}", "fill {value = 1.0} fill"}) {
    auto none = parseInitializer(bad);
    EXPECT_FALSE(bool(none)) << bad;
    llvm::consumeError(none.takeError());
  }
}

} // namespace
