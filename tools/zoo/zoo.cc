#include "tools/zoo/zoo.h"

#include "ir/check.h"
#include "tools/cli/exit.h"
#include "tools/zoo/model.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

using zoo::Sizes;

constexpr int64_t kMaxLevels = 10; // halvings: a larger picture fits into no memory

struct Entry {
  ZooModel model;
  llvm::Expected<Graph> (*build)(const Sizes &);
  int64_t maxDepth;  // limits the number of nodes to what fits into memory
  bool picturesOnly; // --shape must be CxHxW
  // Depths of one family, up to `most`; null if every depth is possible.
  std::vector<int64_t> (*depths)(const Sizes &, int64_t most) = nullptr;
};

ZooOption depth(const char *byDefault, const char *doc) { return {"depth", byDefault, doc}; }
ZooOption width(const char *byDefault, const char *doc) { return {"width", byDefault, doc}; }
ZooOption batch(const char *byDefault) { return {"batch", byDefault, "examples in a batch"}; }
ZooOption shape(const char *byDefault,
                const char *doc = "channels, height and width of a picture") {
  return {"shape", byDefault, doc};
}
ZooOption classes(const char *byDefault) {
  return {"classes", byDefault, "classes, the last size of y"};
}
ZooOption levels(const char *byDefault, const char *doc) { return {"levels", byDefault, doc}; }
ZooOption coupling(const char *byDefault) {
  return {"coupling", byDefault,
          "affine: a coupling multiplies by exp(a tanh(r)) and adds; a is 1, or 16 divided by the "
          "number of couplings if there are more than 16; additive: it only adds"};
}
ZooOption dropout(const char *byDefault, const char *doc) { return {"dropout", byDefault, doc}; }

const std::vector<Entry> &entries() {
  static const auto *list = new std::vector<Entry>{
      {{"mlp",
        "linear layers with relu between them",
        {depth("3", "linear layers"), width("256", "features of hidden layers"), batch("32"),
         shape("784", "features, or CxHxW, flattened"), classes("10"),
         dropout("0", "dropout's ratio after each relu")}},
       zoo::buildMlp,
       1000000,
       false},
      {{"cnn",
        "3x3 convolutions with relu and 2x2 pooling, then one linear layer",
        {depth("3", "convolutions, each followed by a pooling"),
         width("32", "channels of the first convolution; doubled from one to the next"),
         batch("32"), shape("3x32x32"), classes("10"),
         dropout("0", "dropout's ratio before the linear layer")}},
       zoo::buildCnn,
       20,
       true},
      {{"resnet",
        "residual nets (He et al. 2016) with batch norm",
        {depth("50", "18, 34, 50, 101 and 152 are the networks for ImageNet (basic blocks up to "
                     "34, then bottlenecks with the stride in the 3x3); 6n+2, such as 20, 56, 110, "
                     "1202, are those for CIFAR of basic blocks; other 9n+2, such as 29, 1001, are "
                     "those for CIFAR of bottlenecks. With --shape=Cx32x32 a depth of both "
                     "families (50, 101, 152) means CIFAR's network, and the default is 20"),
         width("64", "channels of the stem; CIFAR's: 16"),
         batch("32"),
         shape("3x224x224", "channels, height and width of a picture; CIFAR's: 3x32x32"),
         {"classes", "1000", "classes, the last size of y; CIFAR's: 10"}}},
       zoo::buildResnet,
       100000,
       true,
       zoo::resnetDepths},
      {{"vgg16",
        "13 convolutions and three linear layers (Simonyan and Zisserman 2015)",
        {width("64",
               "channels of the first convolution; linear layers have 64 times as many features"),
         batch("32"), shape("3x224x224"), classes("1000"),
         dropout("0.5", "dropout's ratio after the first two linear layers")}},
       zoo::buildVgg16,
       0,
       true},
      {{"unet",
        "encoder and decoder with skips (Ronneberger et al. 2015), convolutions padded",
        {depth("4", "halvings; height and width must be multiples of two to this power"),
         width("64", "channels at full size; doubled at each halving"),
         batch("4"),
         shape("3x256x256"),
         {"classes", "2", "classes of a pixel, axis 1 of y"},
         dropout("0", "dropout's ratio at the lowest level")}},
       zoo::buildUnet,
       20,
       true},
      {{"mobilenetv2",
        "inverted residuals with depthwise convolutions (Sandler et al. 2018)",
        {width("32", "channels of the stem; all others are in proportion"), batch("32"),
         shape("3x224x224"), classes("1000"),
         dropout("0.2", "dropout's ratio before the linear layer")}},
       zoo::buildMobilenetV2,
       0,
       true},
      {{"densenet",
        "blocks whose layers read all that came before (Huang et al. 2017)",
        {depth("121", "121, 169, 201 or 264"),
         width("32", "channels that a layer adds (the growth)"), batch("32"), shape("3x224x224"),
         classes("1000")}},
       zoo::buildDensenet,
       1000,
       true,
       zoo::densenetDepths},
      {{"gpt2",
        "a transformer decoder with a tied head (Radford et al. 2019); y is [batch * tokens, "
        "vocab]",
        {depth("12", "blocks"),
         width("768", "features of a token; a multiple of heads"),
         batch("4"),
         {"heads", "12", "attention heads"},
         {"tokens", "1024", "tokens of an example"},
         {"vocab", "50257", "different tokens, the last size of y"},
         dropout("0.1", "dropout's ratio on embeddings, attention weights and residual branches"),
         {"fused", "0",
          "1 makes attention one op, which does not keep its weights and cannot drop any of them, "
          "so give --dropout=0"}}},
       zoo::buildGpt2,
       20000,
       false},
      {{"vae",
        "a variational autoencoder (Kingma and Welling 2014) with its loss, half the squared error "
        "plus KL divergence",
        {depth("2", "hidden layers of the encoder and of the decoder; convolutions of stride 2, or "
                    "linear if the shape is "
                    "one number"),
         width("32",
               "channels of the first convolution, doubled from one to the next; or features"),
         batch("32"),
         shape("1x28x28", "CxHxW, or the number of features"),
         {"latent", "20", "size of the code"}}},
       zoo::buildVae,
       10000,
       false},
      {{"nice",
        "a flow of couplings of flat examples (Dinh et al. 2015); its loss is their negative "
        "log-likelihood",
        {depth("4", "couplings, which change the two halves in turn"),
         width("1000", "features of the two hidden layers of a coupling's net"), batch("32"),
         shape("784", "features, or CxHxW, flattened"), coupling("additive")}},
       zoo::buildNice,
       100000,
       false},
      {{"realnvp",
        "a multi-scale flow of couplings (Dinh et al. 2017) with residual nets",
        {depth("4", "couplings of a level, which change the two halves in turn"),
         levels("2", "how often height and width are halved; every level but the last passes half "
                     "of its channels on to z"),
         width("64", "channels within a coupling's net"), batch("32"), shape("3x32x32"),
         coupling("affine")}},
       zoo::buildRealNvp,
       100000,
       true},
      {{"glow",
        "a multi-scale flow (Kingma and Dhariwal 2018): actnorm, which starts as the identity, "
        "invertible 1x1 convolutions, couplings",
        {depth("32", "steps of a level"),
         levels("3", "how often height and width are halved; every level but the last passes half "
                     "of its channels on to z"),
         width("512", "channels within a coupling's net"), batch("32"), shape("3x32x32"),
         coupling("affine")}},
       zoo::buildGlow,
       100000,
       true},
      {{"revnet",
        "reversible residual nets with batch norm (Gomez et al. 2017)",
        {depth("3", "blocks of a stage, of four convolutions; of three stages 3 make RevNet-38, 9 "
                    "RevNet-110"),
         levels("3", "stages; height and width are halved between them"),
         width("32", "channels of the first stage; doubled from one to the next"), batch("32"),
         shape("3x32x32"), classes("10")}},
       zoo::buildRevNet,
       100000,
       true},
      {{"irevnet",
        "residual nets that lose nothing up to their last pooling (Jacobsen et al. 2018), with "
        "batch norm",
        {depth("6", "blocks of a stage, of three convolutions"),
         levels("3", "stages, each of which halves height and width and has four times the "
                     "channels of the one before"),
         width("24",
               "channels within a block of the first stage; doubled from one stage to the next"),
         batch("32"), shape("3x32x32"), classes("10")}},
       zoo::buildIRevNet,
       100000,
       true},
      {{"iresnet",
        "residual nets whose branches are contractions (Behrmann et al. 2019)",
        {depth("7", "blocks of a stage, of two convolutions"),
         levels("3", "stages, each of which halves height and width and has four times the "
                     "channels of the one before"),
         width("32", "channels within a block"), batch("32"), shape("3x32x32"), classes("10")}},
       zoo::buildIResNet,
       100000,
       true},
  };
  return *list;
}

const Entry *findModel(llvm::StringRef name) {
  for (const Entry &e : entries())
    if (e.model.name == name)
      return &e;
  return nullptr;
}

// --- Options

llvm::Expected<int64_t> parseCount(llvm::StringRef option, llvm::StringRef text, int64_t most) {
  int64_t n;
  if (text.getAsInteger(10, n) || n < 1 || n > most)
    return usageError("--{0} expects a whole number from 1 to {1}, got '{2}'", option, most, text);
  return n;
}

llvm::Expected<Dims> parseShape(llvm::StringRef text, bool picturesOnly) {
  const char *want =
      picturesOnly ? "three sizes, CxHxW, such as 3x224x224" : "a size, or three such as 3x224x224";
  auto wrong = [&] {
    return usageError("--shape expects {0}, each from 1 to 1048576, got '{1}'", want, text);
  };
  Dims dims;
  for (llvm::StringRef part : llvm::split(text, 'x')) {
    int64_t n;
    if (part.getAsInteger(10, n) || n < 1 || n > 1 << 20)
      return wrong();
    dims.push_back(n);
  }
  if (dims.size() != 3 && (picturesOnly || dims.size() != 1))
    return wrong();
  return dims;
}

llvm::Expected<double> parseRatio(llvm::StringRef option, llvm::StringRef text) {
  double ratio;
  if (text.getAsDouble(ratio) || !(ratio >= 0 && ratio < 1))
    return usageError("--{0} expects a ratio in [0, 1), got '{1}'", option, text);
  return ratio;
}

llvm::Expected<bool> parseBool(llvm::StringRef option, llvm::StringRef text) {
  if (text != "0" && text != "1")
    return usageError("--{0} expects 0 or 1, got '{1}'", option, text);
  return text == "1";
}

llvm::Expected<bool> parseCoupling(llvm::StringRef text) {
  if (text != "affine" && text != "additive")
    return usageError("--coupling expects affine or additive, got '{0}'", text);
  return text == "additive";
}

llvm::Error setOption(Sizes &s, const Entry &e, llvm::StringRef option, llvm::StringRef text) {
  if (option == "shape")
    return parseShape(text, e.picturesOnly).moveInto(s.shape);
  if (option == "dropout")
    return parseRatio(option, text).moveInto(s.dropout);
  if (option == "fused")
    return parseBool(option, text).moveInto(s.fused);
  if (option == "coupling")
    return parseCoupling(text).moveInto(s.additive);
  if (option == "levels")
    return parseCount(option, text, kMaxLevels).moveInto(s.levels);
  for (auto [name, to] : {std::pair("depth", &s.depth), std::pair("width", &s.width),
                          std::pair("batch", &s.batch), std::pair("classes", &s.classes),
                          std::pair("heads", &s.heads), std::pair("tokens", &s.tokens),
                          std::pair("vocab", &s.vocab), std::pair("latent", &s.latent)})
    if (option == name)
      return parseCount(option, text, option == "depth" ? e.maxDepth : 1 << 20).moveInto(*to);
  ISTHMUS_UNREACHABLE("an option of the zoo's table that is not parsed: " + option.str());
}

llvm::Expected<Sizes> parseOptions(const Entry &e, const ZooOptions &given) {
  std::vector<llvm::StringRef> known;
  for (const ZooOption &o : e.model.options)
    known.push_back(o.name);
  for (const auto &[name, text] : given)
    if (!llvm::is_contained(known, name))
      return usageError("{0} has no option --{1}; it has --{2}{3}", e.model.name, name,
                        llvm::join(known, ", --"), didYouMean(name, known));
  Sizes s;
  for (const ZooOption &o : e.model.options) {
    auto it = given.find(o.name);
    if (llvm::Error error = setOption(s, e, o.name, it == given.end() ? o.byDefault : it->second))
      return error;
  }
  s.depthGiven = given.count("depth");
  s.widthGiven = given.count("width");
  s.classesGiven = given.count("classes");
  s.shapeGiven = given.count("shape");
  return s;
}

} // namespace

llvm::ArrayRef<ZooModel> zooModels() {
  static const auto *models = [] {
    auto *list = new std::vector<ZooModel>;
    for (const Entry &e : entries())
      list->push_back(e.model);
    return list;
  }();
  return *models;
}

static llvm::Error noSuchModel(llvm::StringRef name) {
  std::vector<llvm::StringRef> known;
  for (const ZooModel &m : zooModels())
    known.push_back(m.name);
  return makeError("the zoo has no model '{0}'; it has {1}{2}", name, llvm::join(known, ", "),
                   didYouMean(name, known));
}

llvm::Expected<Graph> buildZoo(llvm::StringRef name, const ZooOptions &options) {
  const Entry *e = findModel(name);
  if (!e)
    return noSuchModel(name);
  auto sizes = parseOptions(*e, options);
  if (!sizes)
    return sizes.takeError();
  return e->build(*sizes);
}

llvm::Expected<std::vector<int64_t>> zooDepths(llvm::StringRef name, const ZooOptions &options,
                                               int64_t most) {
  const Entry *e = findModel(name);
  if (!e)
    return noSuchModel(name);
  ZooOptions some = options;
  some.emplace("depth", "1"); // an error if the model has no depth
  auto sizes = parseOptions(*e, some);
  if (!sizes)
    return sizes.takeError();
  most = std::min(most, e->maxDepth);
  if (e->depths)
    return e->depths(*sizes, most);
  std::vector<int64_t> all;
  for (int64_t depth = 1; depth <= most; ++depth)
    all.push_back(depth);
  return all;
}

std::string zooText(const ZooModel &m) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << m.name << ": " << m.doc << '\n';
  for (const ZooOption &o : m.options) {
    std::string head = "  --" + o.name + "=" + o.byDefault;
    os << llvm::left_justify(head, 22) << ' ' << o.doc << '\n';
  }
  return text;
}

std::string zooText() {
  std::string text;
  for (const ZooModel &m : zooModels())
    text += zooText(m);
  return text;
}

} // namespace isthmus
