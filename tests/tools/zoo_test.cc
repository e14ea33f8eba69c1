// Tests the zoo: its networks have the papers' sizes, and wrong options are errors.

#include "tools/cli/exit.h"
#include "tools/zoo/zoo.h"

#include "passes/differentiate/differentiate.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace isthmus {
namespace {

Graph make(llvm::StringRef name, const ZooOptions &options = {}) {
  auto g = buildZoo(name, options);
  if (!g) {
    ADD_FAILURE() << llvm::toString(g.takeError());
    return Graph();
  }
  return std::move(*g);
}

// The message and the exit code of the error.
std::pair<std::string, int> failure(llvm::StringRef name, const ZooOptions &options) {
  auto g = buildZoo(name, options);
  if (g)
    return {"no error", 0};
  std::pair<std::string, int> out;
  llvm::handleAllErrors(g.takeError(), [&](const DiagError &e) {
    out = {e.diags[0].message, exitCodeOf(e)};
  });
  return out;
}

std::vector<int64_t> depths(llvm::StringRef name, const ZooOptions &options, int64_t most) {
  auto found = zooDepths(name, options, most);
  if (found)
    return *found;
  ADD_FAILURE() << llvm::toString(found.takeError());
  return {};
}

int64_t parameters(const Graph &g) {
  int64_t n = 0;
  for (const Input &i : g.inputs())
    if (i.kind == InputKind::Param)
      n += g.type(i.value).elements();
  return n;
}

bool isFlow(llvm::StringRef name) { return name == "nice" || name == "realnvp" || name == "glow"; }

int countOps(const Graph &g, llvm::StringRef op) {
  int count = 0;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    count += g.node(NodeId(i)).op->name == op;
  return count;
}

std::string typeOf(const Graph &g, llvm::StringRef name) {
  ValueId v = g.find(name);
  return v ? g.type(v).str() : "none";
}

// Options that make each model small enough to differentiate quickly.
ZooOptions smallOptions(llvm::StringRef name) {
  if (name == "gpt2")
    return {{"depth", "2"},  {"width", "16"}, {"heads", "2"},
            {"tokens", "8"}, {"vocab", "50"}, {"batch", "2"}};
  if (name == "mlp")
    return {{"batch", "4"}};
  if (name == "vae")
    return {{"batch", "2"}};
  if (name == "glow")
    return {{"batch", "2"}, {"shape", "3x8x8"}, {"depth", "2"}, {"width", "16"}};
  return {{"batch", "2"}, {"shape", "3x32x32"}};
}

// Numbers from torchvision, from the papers (GPT-2: 124M) and, for U-Net, the sum of its layers.
TEST(Zoo, HasThePapersNumbersOfParameters) {
  EXPECT_EQ(parameters(make("resnet", {{"depth", "18"}})), 11689512);
  EXPECT_EQ(parameters(make("resnet", {{"depth", "34"}})), 21797672);
  EXPECT_EQ(parameters(make("resnet")), 25557032);
  EXPECT_EQ(parameters(make("resnet", {{"depth", "101"}})), 44549160);
  EXPECT_EQ(parameters(make("resnet", {{"depth", "152"}})), 60192808);
  EXPECT_EQ(parameters(make("vgg16")), 138357544);
  EXPECT_EQ(parameters(make("mobilenetv2")), 3504872);
  EXPECT_EQ(parameters(make("densenet")), 7978856);
  EXPECT_EQ(parameters(make("densenet", {{"depth", "169"}})), 14149480);
  EXPECT_EQ(parameters(make("densenet", {{"depth", "201"}})), 20013928);
  EXPECT_EQ(parameters(make("gpt2")), 124439808);
  EXPECT_EQ(parameters(make("mlp")), 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10);

  int64_t unet = 0;
  auto conv = [&](int64_t from, int64_t to, int64_t kernel) {
    unet += from * to * kernel * kernel + to;
  };
  int64_t from = 3;
  for (int64_t c : {64, 128, 256, 512, 1024}) {
    conv(from, c, 3);
    conv(c, c, 3);
    from = c;
  }
  for (int64_t c : {512, 256, 128, 64}) {
    conv(2 * c, c, 2);
    conv(2 * c, c, 3);
    conv(c, c, 3);
  }
  conv(64, 2, 1);
  EXPECT_EQ(parameters(make("unet")), unet);
}

// Table 6 of He et al. 2016: 0.27M, 1.7M, 19.4M parameters; projections add few.
TEST(Zoo, ResnetForCifar) {
  for (auto [depth, low, high] :
       {std::tuple("20", 0.26e6, 0.28e6), {"110", 1.7e6, 1.76e6}, {"1202", 19.3e6, 19.5e6}}) {
    Graph g = make("resnet", {{"depth", depth}, {"shape", "3x32x32"}});
    EXPECT_GE(double(parameters(g)), low) << depth;
    EXPECT_LE(double(parameters(g)), high) << depth;
    EXPECT_EQ(typeOf(g, "y"), "f32[32, 10]");
    // Convolutions: the stem, the blocks and two projections. The last layer that the depth counts
    // is linear.
    EXPECT_EQ(countOps(g, "conv"), std::stoi(depth) - 1 + 2);
  }
}

TEST(Zoo, ResnetChoosesItsFamily) {
  // Both families have depth 50, so the size of the pictures decides.
  EXPECT_EQ(countOps(make("resnet", {{"depth", "50"}}), "max_pool"), 1);
  EXPECT_EQ(countOps(make("resnet", {{"depth", "50"}, {"shape", "3x32x32"}}), "max_pool"), 0);
  // Depth 18 is in ImageNet's family only, and depth 20 in CIFAR's only.
  EXPECT_EQ(countOps(make("resnet", {{"depth", "18"}, {"shape", "3x32x32"}}), "max_pool"), 1);
  EXPECT_EQ(countOps(make("resnet", {{"depth", "20"}, {"shape", "3x224x224"}}), "max_pool"), 0);
  EXPECT_EQ(typeOf(make("resnet", {{"depth", "20"}}), "x"), "f32[32, 3, 32, 32]");
  EXPECT_EQ(typeOf(make("resnet", {{"depth", "20"}, {"shape", "3x64x64"}}), "x"),
            "f32[32, 3, 64, 64]");
  EXPECT_EQ(typeOf(make("resnet", {{"depth", "50"}}), "x"), "f32[32, 3, 224, 224]");
  // Bottleneck blocks, of depth 9n+2, widen in each of three stages.
  EXPECT_EQ(countOps(make("resnet", {{"depth", "29"}}), "conv"), 29 - 1 + 3);
  // The default depth for 32x32 is 20.
  EXPECT_EQ(countOps(make("resnet", {{"shape", "3x32x32"}}), "conv"), 19 + 2);
  Graph wide = make("resnet", {{"shape", "1x32x32"}, {"width", "32"}, {"classes", "7"}});
  EXPECT_EQ(typeOf(wide, "conv1.weight"), "f32[32, 1, 3, 3]");
  EXPECT_EQ(typeOf(wide, "y"), "f32[32, 7]");
}

TEST(Zoo, Results) {
  EXPECT_EQ(typeOf(make("mlp"), "y"), "f32[32, 10]");
  EXPECT_EQ(typeOf(make("mlp", {{"shape", "3x8x8"}, {"depth", "1"}}), "fc1.weight"),
            "f32[192, 10]");
  EXPECT_EQ(typeOf(make("cnn"), "y"), "f32[32, 10]");
  EXPECT_EQ(typeOf(make("resnet"), "y"), "f32[32, 1000]");
  EXPECT_EQ(typeOf(make("vgg16"), "y"), "f32[32, 1000]");
  EXPECT_EQ(typeOf(make("unet"), "y"), "f32[4, 2, 256, 256]");
  EXPECT_EQ(typeOf(make("mobilenetv2"), "y"), "f32[32, 1000]");
  EXPECT_EQ(typeOf(make("densenet"), "y"), "f32[32, 1000]");
  EXPECT_EQ(typeOf(make("gpt2"), "y"), "f32[4096, 50257]");
  EXPECT_EQ(typeOf(make("gpt2"), "ids"), "i64[4, 1024]");
  EXPECT_EQ(typeOf(make("vae"), "y"), "f32[32, 1, 28, 28]");
  EXPECT_EQ(typeOf(make("vae", {{"shape", "784"}, {"width", "400"}}), "y"), "f32[32, 784]");
  EXPECT_EQ(typeOf(make("vae", {{"depth", "1"}, {"shape", "3x32x32"}}), "loss"), "f32[]");
  for (auto [flow, coupling] : {std::pair("nice", "additive"),
                                {"nice", "affine"},
                                {"realnvp", "additive"},
                                {"realnvp", "affine"},
                                {"glow", "additive"},
                                {"glow", "affine"}}) {
    Graph g =
        make(flow, {{"depth", "2"}, {"shape", "3x16x16"}, {"batch", "5"}, {"coupling", coupling}});
    for (const char *scalar : {"nll", "logdet", "latent"})
      EXPECT_EQ(typeOf(g, scalar), "f32[]") << flow;
    EXPECT_EQ(typeOf(g, "z"), "f32[5, 768]") << flow;
    EXPECT_EQ(g.loss, g.find("nll")) << flow;
  }
  for (const char *net : {"revnet", "irevnet", "iresnet"})
    EXPECT_EQ(typeOf(make(net, {{"depth", "1"}, {"classes", "7"}}), "y"), "f32[32, 7]") << net;
}

// Compares the numbers in the papers with those of the networks here.
TEST(Zoo, FlowsAndReversibleNets) {
  // NICE's table 1: 4 couplings of 1000 units for MNIST. Here they have 2 hidden layers.
  EXPECT_EQ(parameters(make("nice")),
            4 * (392 * 1000 + 1000 + 1000 * 1000 + 1000 + 1000 * 392 + 392) + 784);
  // A level of Glow has 4 C, 8 C, ... channels. Each step has a bias and a scale per channel, a
  // matrix of the channels, and a network.
  int64_t glow = 0;
  for (int64_t c : {12, 24, 48})
    glow += 32 * (2 * c + c * c + 9 * (c / 2) * 512 + 512 + 512 * 512 + 512 + 9 * 512 * c + c);
  EXPECT_EQ(parameters(make("glow")), glow);
  Graph additive = make("glow", {{"coupling", "additive"}});
  EXPECT_EQ(countOps(additive, "tanh"), 0);
  EXPECT_EQ(countOps(make("glow"), "tanh"), 32 * 3);
  EXPECT_EQ(countOps(additive, "logabsdet"), 32 * 3);
  // RevNet-38 of Gomez et al.: convolutions, and one linear layer.
  EXPECT_EQ(countOps(make("revnet"), "conv"), 3 * 3 * 4 + 3);
  EXPECT_EQ(countOps(make("irevnet"), "conv"), 6 * 3 * 3);
  Graph iresnet = make("iresnet");
  EXPECT_EQ(iresnet.countNodes([](const Node &n) { return n.hasMark("contraction"); }), 7u * 3);
}

// The initial weights of an invertible convolution rotate and do not stretch.
TEST(Zoo, RotationsAreOrthogonal) {
  for (const char *channels : {"1", "3", "40"}) {
    Graph g = make("glow", {{"shape", std::string(channels) + "x2x2"},
                            {"levels", "1"},
                            {"depth", "1"},
                            {"width", "8"}});
    const Tensor &w = g.inputOf(g.find("level1.step1.mix.weight"))->init.data;
    int64_t n = w.type.dims[0];
    ASSERT_EQ(n, 4 * std::stoi(channels));
    double offDiagonal = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (int64_t k = 0; k < n; ++k)
          dot += double(w.as<float>()[i * n + k]) * w.as<float>()[j * n + k];
        EXPECT_NEAR(dot, i == j, 1e-6);
        offDiagonal += i == j ? 0 : std::fabs(w.as<float>()[i * n + j]);
      }
    EXPECT_GT(offDiagonal, 0.3 * double(n)); // it mixes the channels
  }
}

TEST(Zoo, DropoutOnlyWhereAskedFor) {
  EXPECT_EQ(countOps(make("vgg16"), "dropout"), 2);
  EXPECT_EQ(countOps(make("vgg16", {{"dropout", "0"}}), "dropout"), 0);
  EXPECT_EQ(countOps(make("gpt2"), "dropout"), 1 + 12 * 3);
  EXPECT_EQ(countOps(make("gpt2", {{"fused", "1"}, {"dropout", "0"}}), "attention"), 12);
  Graph mlp = make("mlp", {{"depth", "4"}, {"dropout", "0.25"}});
  std::set<int64_t> streams;
  for (uint32_t i = 0; i < mlp.numNodes(); ++i)
    if (const Node &n = mlp.node(NodeId(i)); n.op->effect == Effect::Draws) {
      EXPECT_EQ(n.attrs.getFloat("ratio"), 0.25);
      streams.insert(n.attrs.getInt("stream"));
    }
  EXPECT_EQ(streams.size(), 3u);
}

// For every model: `y` is the first output and states follow; only vae and flows have a loss; seeds
// depend on names; and gradients reach every parameter.
TEST(Zoo, EveryModelKeepsTheRules) {
  for (const ZooModel &model : zooModels()) {
    SCOPED_TRACE(model.name);
    Graph g = make(model.name, smallOptions(model.name)),
          same = make(model.name, smallOptions(model.name));
    ASSERT_FALSE(g.outputs().empty());
    EXPECT_EQ(g.valueName(g.outputs()[0]), isFlow(model.name) ? "nll" : "y");
    EXPECT_EQ(bool(g.loss), model.name == "vae" || isFlow(model.name));
    EXPECT_FALSE(g.hasBackward());
    size_t states = 0, newStates = 0;
    for (const Input &i : g.inputs())
      states += i.kind == InputKind::State;
    for (ValueId v : g.outputs())
      if (llvm::StringRef name = g.valueName(v); name.consume_front("state.")) {
        ++newStates;
        const Node &update = g.node(g.value(v).def);
        EXPECT_EQ(update.phase, Phase::Update);
        EXPECT_EQ(g.type(v), g.type(g.find(name)));
      }
    EXPECT_EQ(states, newStates);

    std::set<int64_t> seeds;
    size_t drawn = 0;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Initializer &init = g.inputs()[i].init;
      EXPECT_EQ(init.args, same.inputs()[i].init.args);
      if (init.kind == Initializer::Kind::Normal) {
        ++drawn;
        seeds.insert(init.args.getInt("seed"));
        EXPECT_GT(init.args.getFloat("std"), 0);
      } else if (init.kind == Initializer::Kind::Data) {
        EXPECT_EQ(llvm::StringRef(init.data.data, size_t(init.data.bytes())),
                  llvm::StringRef(same.inputs()[i].init.data.data, size_t(init.data.bytes())));
      } else if (g.inputs()[i].kind != InputKind::Input) {
        EXPECT_EQ(init.kind, Initializer::Kind::Fill);
      }
    }
    EXPECT_EQ(seeds.size(), drawn);

    ValueList params;
    for (const Input &i : g.inputs())
      if (i.kind == InputKind::Param)
        params.push_back(i.value);
    auto grads = gradients(g, {g.loss ? g.loss : g.outputs()[0]}, params);
    if (!grads) {
      ADD_FAILURE() << llvm::toString(grads.takeError());
      continue;
    }
    for (size_t i = 0; i < params.size(); ++i) {
      ASSERT_TRUE((*grads)[i]) << g.valueName(params[i]).str();
      EXPECT_EQ(g.type((*grads)[i]), g.type(params[i]));
    }
  }
}

TEST(Zoo, RealDepthsAreBuiltQuickly) {
  EXPECT_EQ(make("mlp", {{"depth", "100000"}, {"width", "8"}}).numNodes(), 299999u);
}

TEST(Zoo, Errors) {
  using Failure = std::pair<std::string, int>;
  EXPECT_EQ(failure("resnt", {}),
            Failure("the zoo has no model 'resnt'; it has mlp, cnn, resnet, vgg16, unet, "
                    "mobilenetv2, densenet, gpt2, vae, nice, realnvp, glow, revnet, irevnet, "
                    "iresnet; did you mean 'resnet', 'revnet' or 'iresnet'?",
                    1));
  EXPECT_EQ(failure("mlp", {{"tokens", "8"}}),
            Failure("mlp has no option --tokens; it has --depth, --width, --batch, --shape, "
                    "--classes, --dropout",
                    2));
  EXPECT_EQ(failure("gpt2", {{"head", "8"}}).first,
            "gpt2 has no option --head; it has --depth, --width, --batch, --heads, --tokens, "
            "--vocab, --dropout, --fused; did "
            "you mean 'heads'?");
  EXPECT_EQ(failure("resnet", {{"depth", "51"}}),
            Failure("resnet expects a --depth of 18, 34, 50, 101, 152 or, in CIFAR's family, 6n+2 "
                    "or 9n+2, got 51; "
                    "near it are 50 and 56",
                    2));
  EXPECT_NE(failure("resnet", {{"depth", "1"}}).first.find("near it is 8"), std::string::npos);
  EXPECT_EQ(failure("gpt2", {{"width", "100"}}),
            Failure("gpt2 expects --width to be a multiple of --heads, got 100 and 12", 2));
  EXPECT_EQ(failure("gpt2", {{"fused", "yes"}}), Failure("--fused expects 0 or 1, got 'yes'", 2));
  EXPECT_EQ(failure("gpt2", {{"fused", "1"}}),
            Failure("gpt2 with --fused=1 expects --dropout=0, since its attention has no weights "
                    "to drop any of, got 0.1",
                    2));
  EXPECT_EQ(
      failure("unet", {{"shape", "3x100x64"}}),
      Failure(
          "a unet of depth 4 expects height and width to be multiples of 16, got --shape=3x100x64",
          2));
  EXPECT_EQ(failure("glow", {{"shape", "3x12x32"}}),
            Failure("a glow of 3 levels expects height and width to be multiples of 8, got "
                    "--shape=3x12x32",
                    2));
  EXPECT_EQ(failure("realnvp", {{"coupling", "additve"}}),
            Failure("--coupling expects affine or additive, got 'additve'", 2));
  EXPECT_EQ(failure("glow", {{"levels", "11"}}),
            Failure("--levels expects a whole number from 1 to 10, got '11'", 2));
  EXPECT_EQ(failure("revnet", {{"width", "31"}}),
            Failure("revnet expects an even --width, which it splits, got 31", 2));
  EXPECT_EQ(failure("nice", {{"shape", "1"}}),
            Failure("nice expects 2 features or more, which it splits, got --shape=1", 2));
  EXPECT_EQ(failure("vgg16", {{"shape", "3x16x64"}}),
            Failure("the net halves height and width 5 times and expects 32 pixels at least, got "
                    "--shape=3x16x64",
                    2));
  EXPECT_EQ(failure("mlp", {{"batch", "1048576"}, {"shape", "1048576x1048576x1048576"}}).second, 2);
}

TEST(Zoo, MalformedNumbers) {
  for (const char *text : {"", "0", "-1", "1.5", "x", "1e3", "99999999999999999999", " 4"})
    for (const char *option : {"depth", "width", "batch", "classes"}) {
      auto [message, code] = failure("mlp", {{option, text}});
      EXPECT_EQ(code, 2) << option << "=" << text;
      EXPECT_NE(message.find("expects a whole number from 1 to"), std::string::npos) << message;
    }
  for (const char *text :
       {"", "3", "3x224", "3x224x224x1", "3x0x3", "3x-1x3", "axbxc", "3x2097152x3", "x3x3"}) {
    auto [message, code] = failure("resnet", {{"shape", text}});
    EXPECT_EQ(code, 2) << text;
    EXPECT_NE(message.find("--shape expects three sizes"), std::string::npos) << message;
  }
  for (const char *text : {"1", "-0.1", "nan", "half"})
    EXPECT_EQ(failure("vgg16", {{"dropout", text}}),
              (std::pair<std::string, int>(
                  std::string("--dropout expects a ratio in [0, 1), got '") + text + "'", 2)));
}

// The largest values of all options together give an error, and no crash.
TEST(Zoo, HugeSizes) {
  for (const ZooModel &model : zooModels()) {
    ZooOptions huge;
    for (const ZooOption &o : model.options)
      if (o.name == "shape")
        huge[o.name] = "1048576x1048576x1048576";
      else if (o.name == "depth" && model.name != "resnet" && model.name != "densenet")
        huge[o.name] = "20";
      else if (o.name == "fused")
        huge[o.name] = "0";
      else if (o.name == "coupling")
        huge[o.name] = "affine";
      else if (o.name == "levels")
        huge[o.name] = "3";
      else if (o.name != "depth" && o.name != "dropout")
        huge[o.name] = "1048576";
    auto [message, code] = failure(model.name, huge);
    EXPECT_EQ(code, 2) << model.name;
    EXPECT_NE(message.find("is more than the 2^44"), std::string::npos)
        << model.name << ": " << message;
    // One such value gives an error or a graph, but no crash.
    for (const auto &[name, text] : huge) {
      auto g = buildZoo(model.name, {{name, text}});
      if (!g) {
        EXPECT_NE(llvm::toString(g.takeError()), "");
      }
    }
  }
}

TEST(Zoo, TheListNamesEveryOption) {
  std::string text = zooText();
  for (const ZooModel &m : zooModels()) {
    EXPECT_NE(text.find(m.name + ": "), std::string::npos);
    for (const ZooOption &o : m.options) {
      EXPECT_FALSE(o.doc.empty());
      EXPECT_NE(text.find("  --" + o.name + "=" + o.byDefault), std::string::npos);
    }
  }
}

using Depths = std::vector<int64_t>;

TEST(Depths, AreThoseOfOneFamily) {
  EXPECT_EQ(depths("glow", {}, 4), (Depths{1, 2, 3, 4}));
  EXPECT_EQ(depths("unet", {}, 1000).size(), 20u);
  EXPECT_EQ(depths("densenet", {}, 250), (Depths{121, 169, 201}));
  EXPECT_EQ(depths("resnet", {}, 1000), (Depths{18, 34, 50, 101, 152}));
  EXPECT_EQ(depths("resnet", {{"depth", "50"}}, 100), (Depths{18, 34, 50}));
  EXPECT_EQ(depths("resnet", {{"shape", "3x32x32"}}, 50), (Depths{8, 14, 20, 26, 32, 38, 44, 50}));
  // A depth of both families is ImageNet's if pictures are not 32 x 32.
  EXPECT_EQ(depths("resnet", {{"shape", "1x8x8"}}, 60), (Depths{8, 14, 20, 26, 32, 38, 44, 56}));
}

// Each depth can be built, and is larger than the one before.
TEST(Depths, CanBeBuilt) {
  for (auto [name, options] : {std::pair<const char *, ZooOptions>("resnet", {{"batch", "1"}}),
                               {"resnet", {{"batch", "1"}, {"shape", "1x8x8"}}},
                               {"densenet", {{"batch", "1"}}},
                               {"nice", {{"batch", "1"}, {"width", "8"}}}}) {
    int64_t before = 0;
    for (int64_t depth : depths(name, options, 300)) {
      options["depth"] = std::to_string(depth);
      const int64_t now = parameters(make(name, options));
      EXPECT_GT(now, before) << name << " " << depth;
      before = now;
    }
  }
}

TEST(Depths, WhatHasNone) {
  for (auto [name, words] : {std::pair("vgg16", "vgg16 has no option --depth"),
                             {"nothing", "the zoo has no model 'nothing'"}}) {
    auto found = zooDepths(name, {}, 10);
    ASSERT_FALSE(bool(found));
    EXPECT_NE(llvm::toString(found.takeError()).find(words), std::string::npos);
  }
}

} // namespace
} // namespace isthmus
