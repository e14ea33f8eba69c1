#include "tools/cli/verb.h"

#include "ir/name_list.h"
#include "ir/type.h"
#include "passes/checkpoint/policy.h"
#include "passes/differentiate/loss.h"
#include "passes/rewrite/problem.h"
#include "tools/cli/budget.h"
#include "tools/cli/console.h"
#include "tools/cli/exit.h"
#include "tools/cli/processes.h"
#include "tools/cli/stage_flags.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <climits>
#include <cmath>

namespace isthmus {
namespace {

std::string expected(const char *what, const std::string &got) {
  return std::string("expected ") + what + ", got '" + got + "'";
}

CLI::Validator positiveNumber() {
  auto check = [](std::string &text) {
    double value = 0;
    bool isOne = !llvm::StringRef(text).getAsDouble(value) && std::isfinite(value) && value > 0;
    return isOne ? "" : expected("a number above 0", text);
  };
  return CLI::Validator(check, "NUMBER");
}

template <typename Int>
CLI::Validator wholeNumber(Int least, Int most, const char *what, const char *name) {
  auto check = [=](std::string &text) {
    Int value = 0;
    bool isOne = !llvm::StringRef(text).getAsInteger(10, value) && value >= least && value <= most;
    return isOne ? "" : expected(what, text);
  };
  return CLI::Validator(check, name);
}

} // namespace

CLI::Validator positiveInteger() {
  return wholeNumber<int>(1, INT_MAX, "a whole number from 1 to 2147483647", "COUNT");
}

CLI::Validator nonNegativeInteger() {
  return wholeNumber<int>(0, INT_MAX, "a whole number from 0 to 2147483647", "COUNT");
}

CLI::Validator nonNegativeNumber() {
  auto check = [](std::string &text) {
    double value = 0;
    bool isOne = !llvm::StringRef(text).getAsDouble(value) && std::isfinite(value) && value >= 0;
    return isOne ? "" : expected("a number from 0 on", text);
  };
  return CLI::Validator(check, "NUMBER");
}

CLI::Validator threadCount() {
  return wholeNumber<int>(1, 4096, "a whole number from 1 to 4096", "COUNT");
}

CLI::Validator seedNumber() {
  return wholeNumber<uint64_t>(0, UINT64_MAX, "a whole number from 0 to 2^64 - 1", "");
}

CLI::Option *addPathOption(CLI::App &verb, const std::string &names, std::string &path,
                           const std::string &doc) {
  auto check = [](const std::string &text) {
    return text.empty() ? std::string("expected a name, got an empty one") : "";
  };
  return verb.add_option(names, path, doc)->check(check, "");
}

void addModelOptions(CLI::App &verb, ModelOptions &o) {
  const char *group = "Model options";
  verb.add_option("MODEL", o.model, "an .onnx or .isth file, or - for an .isth on standard input")
      ->required();
  verb.add_option(
          "--loss", o.loss,
          ("what to differentiate: KIND of the first output, KIND:%value of another value, or "
           "%value itself, the sum of its elements; such as cross_entropy, mse:%mask, %nll; "
           "KIND is one of " +
           kLossNames + "; default: the value that the file names")
              .str())
      ->group(group);
  verb.add_flag("--keep-outputs", o.keepOutputs,
                "the step that --loss=KIND makes has the model's outputs too; default: they are "
                "freed after their last use")
      ->group(group);
  verb.add_option("--class-axis", o.classAxis,
                  "the axis of the classes, for cross_entropy; -1 is the last axis")
      ->capture_default_str()
      ->group(group);
  verb.add_option("--ignore-index", o.ignoreIndex,
                  "a label whose elements do not count, for cross_entropy, such as "
                  "--ignore-index=-100; default: all count")
      ->group(group);
  verb.add_option("--wrt", o.wrt,
                  "what to differentiate by: params, inputs, all, or names with * and ?, separated "
                  "by commas, such as %x,%layer*.weight; default: params")
      ->group(group);
  addPathOption(verb, "--inputs", o.inputs,
                "a folder with NAME.npy for graph inputs and parameters; a run draws all others at "
                "random; the files also fix sizes that an .onnx leaves open")
      ->group(group);
  addPathOption(verb, "--load", o.load,
                "a .safetensors file with the model's parameters and running averages, as `train "
                "--save` writes it, in place of those that the model has")
      ->group(group);
  verb.add_option("--dim", o.dims, "size of a symbolic dimension, as N=8; repeatable")
      ->group(group)
      ->take_all()
      ->allow_extra_args(false);
  verb.add_option("--tie", o.ties,
                  "two tensors of an .onnx file that are one parameter, as A,B; repeatable")
      ->group(group)
      ->take_all()
      ->allow_extra_args(false);
  verb.add_option("--untie", o.untie,
                  "tensors of an .onnx file that are parameters of their own although they equal "
                  "others: names with * and ?, separated by commas")
      ->group(group);
  verb.add_flag("--eval", o.eval,
                "batch norm and dropout infer, whatever the file says; default: as written, or "
                "training if the graph is differentiated")
      ->group(group);
  verb.add_flag("--as-written", o.asWritten,
                "batch norm and dropout do as the file says, even if the graph is differentiated")
      ->group(group);
  verb.add_option("--seed", o.seed, "seed of drawn inputs and of random ops")
      ->capture_default_str()
      ->group(group)
      ->check(seedNumber())
      ->each([&o](const std::string &) { o.seedGiven = true; });
  verb.add_option("--threads", o.threads,
                  "CPU threads; default: OMP_NUM_THREADS, or one for each core that this process "
                  "may use")
      ->group(group)
      ->check(threadCount());
  verb.add_option_function<int64_t>(
          "--deadline",
          [](int64_t seconds) {
            if (ProcessGroup *group = processGroup())
              group->setDeadline(std::chrono::seconds(seconds));
          },
          "under mpirun: after how many seconds without a sign of life a process counts as "
          "hanging, "
          "so that all end; a long computation is no silence; 0: wait for ever")
      ->default_str("60")
      ->group(group)
      ->check(CLI::Range(int64_t(0), int64_t(1'000'000)));
  verb.add_option(
          "--precision", o.precision,
          "f32, f64, bf16, f16, or tf32: f32 whose products a GPU may round; default: as the "
          "model has it")
      ->group(group);
  verb.add_option("--layout", o.layout,
                  "the axis order of convolutions, auto, channels-first or channels-last: auto is "
                  "the faster one on the device, for the model's precision")
      ->capture_default_str()
      ->group(group)
      ->check(CLI::IsMember({kAutoLayout, kFirstLayout, kLastLayout}));
  verb.add_flag("--allow-outside", o.allowOutside,
                "weights may lie outside the model's folder, wherever the file names them")
      ->group(group);
  verb.add_option("--progress", o.progress, "auto, plain or none")
      ->capture_default_str()
      ->group(group)
      ->check(CLI::IsMember({"auto", "plain", "none"}));
}

void addOptimizerFlags(CLI::App &verb, OptimizerFlags &f, const char *doc) {
  const char *group = "Optimizer options";
  auto number = [&](const char *name, std::optional<double> &value, const char *help) {
    verb.add_option(name, value, help)->group(group);
  };
  CLI::Option *kind =
      verb.add_option("--optimizer", f.optimizer, llvm::join(optimizerNames(), ", ") + "; " + doc)
          ->group(group);
  if (!f.optimizer.empty())
    kind->capture_default_str();
  number("--momentum", f.momentum, "for sgd; default: 0");
  verb.add_flag("--nesterov", f.nesterov, "Nesterov's form of momentum")->group(group);
  verb.add_option("--betas", f.betas, "for adam and adamw, as B1,B2; default: 0.9,0.999")
      ->group(group);
  number("--eps", f.epsilon, "for adam and adamw; default: 1e-08");
  number("--weight-decay", f.weightDecay, "default: 0, for adamw 0.01");
  number("--clip-norm", f.clipNorm,
         "the limit of the norm of all gradients together, to which they are scaled down; default: "
         "none");
}

CLI::Option *addEffortOption(CLI::App &verb, double &effort) {
  return verb
      .add_option("--effort", effort,
                  "how long to search for a plan, in seconds of a common core, more or less; the "
                  "same plan on every machine; default: by the size of the graph, 2 at 400 ops, 5 "
                  "at 4,000, 10 at 10,000")
      ->check(positiveNumber());
}

void addGraphProduct(CLI::App &verb, const std::string &what, GraphProduct &product) {
  addPathOption(verb, "-o,--output", product.output,
                what + ", OUT.isth or OUT.onnx; default: standard output");
  addPathOption(verb, "--weights", product.weights,
                "a .safetensors file for large weights; default: beside OUT.isth");
}

static llvm::Expected<Policy> policyOption(llvm::StringRef text, llvm::StringRef option) {
  if (auto policy = parsePolicy(text))
    return *policy;
  return usageError("{0} expects one of {1}, got '{2}'{3}", option, llvm::join(policyNames(), ", "),
                    text, didYouMean(text, policyNames()));
}

static llvm::Expected<std::string> checkpointsOption(llvm::StringRef text, llvm::StringRef option) {
  if (parseNameList(text).empty())
    return usageError(
        "{0} expects names of values or nodes, separated by commas, got an empty list", option);
  return text.str();
}

static llvm::Expected<double> shareOption(llvm::StringRef text, llvm::StringRef option) {
  const auto budget = parseBudget(text);
  if (budget && budget->kind == Budget::Share)
    return budget->share;
  return usageError("{0} expects a share of the step's cost, such as 50%, got '{1}'", option, text);
}

// An option whose text is parsed at once, into a value of its own type.
template <typename Value, typename Parse>
static CLI::Option *addParsed(CLI::App &verb, const char *name, std::optional<Value> &to,
                              Parse parse, const std::string &doc) {
  return verb.add_option_function<std::string>(
      name,
      [&to, parse, name](const std::string &text) {
        auto value = parse(text, name);
        if (!value)
          throw CLI::ValidationError(plainMessage(value.takeError()));
        to = std::move(*value);
      },
      doc);
}

void takeBatch(const char *option, llvm::ArrayRef<std::string> texts, PlanFlags &o) {
  for (const std::string &text : texts) {
    auto request = parseBatchRequest(text);
    if (!request)
      throw CLI::ValidationError(option, plainMessage(request.takeError()));
    o.batch.push_back(std::move(*request));
  }
}

void addPlanFlags(CLI::App &verb, PlanFlags &o) {
  const char *group = "Plan options";
  addParsed(verb, "--policy", o.policy, policyOption,
            "what is kept of the forward part, the rest being recomputed where that lowers the "
            "peak: none, everything; speed, what convolutions and matrix products give; memory, "
            "about sqrt(N) bottlenecks, or all that crosses some cuts, whichever has the lower "
            "peak; collection, what is marked #checkpoint; default: none")
      ->group(group);
  addParsed(verb, "--checkpoints", o.checkpoints, checkpointsOption,
            "values to keep, in place of a policy: names with * and ?, separated by commas; what "
            "takes no memory at the peak is kept too")
      ->group(group);
  verb.add_option("--smallest-checkpoint", o.smallestCheckpoint,
                  "with --policy=memory: bottlenecks of fewer elements are not kept; default: " +
                      std::to_string(kSmallestCheckpoint))
      ->group(group)
      ->check(wholeNumber<int64_t>(0, INT64_MAX, "a whole number from 0 on", "COUNT"));
  addParsed(verb, "--budget", o.budget, budgetOption,
            "the limit of the arena, in place of a policy: 2GiB, 500MB, bytes, 50% of the "
            "baseline, or min")
      ->group(group);
  addParsed(verb, "--memory-limit", o.memoryLimit, parseSize,
            "the limit of parameters, inputs and arena together: 2GiB, 500MB, bytes")
      ->group(group);
  addParsed(verb, "--max-added", o.maxAdded, shareOption,
            "the most that the plan may add to the step's cost, such as 50%: a dearer plan is an "
            "error; default: no limit, and for --budget=min 100%")
      ->group(group);
  addEffortOption(verb, o.effort)->group(group);
  addPathOption(verb, "--costs", o.costs,
                "measured times, a JSON file that `isthmus profile -o` wrote; default: estimates "
                "for the device")
      ->group(group);
  verb.add_option(
          "--allow", o.allow,
          "how tensors may be rematerialized within a budget, separated by commas: recompute; "
          "invert, from results computed from them, which rounds; fetch, from the host's memory; "
          "encode, by keeping a smaller value instead, such as a mask; chunk, by never making them "
          "whole: regions run part by part; default: recompute")
      ->group(group)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({kRecomputeWay, kInvertWay, kFetchWay, kEncodeWay, kChunkWay}));
  verb.add_option_function<std::vector<std::string>>(
          "--chunk",
          [&o](const std::vector<std::string> &texts) {
            for (const std::string &text : texts) {
              auto request = parseChunkRequest(text);
              if (!request)
                throw CLI::ValidationError("--chunk", plainMessage(request.takeError()));
              o.chunks.push_back(std::move(*request));
            }
          },
          "a value that is never made whole, as %logits:axis=0,chunks=8: the nodes around it run "
          "part by part, whatever the plan; repeatable")
      ->group(group)
      ->type_name("TEXT ...");
  verb.add_option("--microbatches", o.microBatches,
                  "run the whole step in so many parts of the batch; where a node needs the whole "
                  "batch, such as a batch norm, the parts meet")
      ->group(group)
      ->check(wholeNumber<int64_t>(1, int64_t(1) << 40, "a whole number from 1 to 2^40", "COUNT"));
  if (!verb.get_option_no_throw("--batch")) // where it takes sizes, it takes these texts, too
    verb.add_option_function<std::vector<std::string>>(
            "--batch",
            [&o](const std::vector<std::string> &texts) { takeBatch("--batch", texts, o); },
            "the axis of an input on which its examples are, for all that divides the batch, as "
            "%x:axis=1; repeatable; default: axis 0 of the first input, or that which more of the "
            "step can be divided along; the other inputs follow by what the nodes do")
        ->group(group)
        ->type_name("TEXT ...");
  verb.add_option_function<std::vector<std::string>>(
          "--whole",
          [&o](std::vector<std::string> names) {
            for (std::string &name : names)
              name += ":whole";
            takeBatch("--whole", names, o);
          },
          "an input that has no examples, as %mask, although its size may look like it; repeatable")
      ->group(group)
      ->type_name("NAME ...");
  verb.add_option(
          "--batch-norm", o.batchNorm,
          "with --microbatches: whole, batch norms take the statistics of the whole batch, "
          "as without micro-batches; micro, those of each micro-batch, and running averages "
          "move once, by those of the whole batch; default: whole")
      ->group(group)
      ->check(CLI::IsMember({kMicroNorm, kWholeNorm}));
  addStageFlags(verb, o);
  verb.add_option("--max-inverse-error", o.maxInverseError,
                  "with --allow=invert: the largest error of a rebuilt tensor, as a share of its "
                  "largest element, measured on the first step; tensors above it are "
                  "rematerialized in another way; default: 1e-3")
      ->group(group);
  verb.add_option(
          "--iterations", o.iterations,
          "with --allow=invert: how many iterations of x = y - f(x) invert a sum y = x + f(x) that "
          "is marked #contraction, from 3 to 10000; default: such sums are not inverted")
      ->group(group);
  addParsed(verb, "--host-memory", o.hostMemory, parseSize,
            "the most of the host's memory that --allow=fetch may use: 2GiB, 500MB, bytes; "
            "default: as much as needed")
      ->group(group);
  addParsed(verb, "--link", o.link, parseRate,
            "the bandwidth of the link to the host's memory in each direction, in bytes a second, "
            "such as 25GB; a cpu has no link, and slows its copies down to this rate; default: the "
            "device's own")
      ->group(group);
}

static llvm::Error checkWays(const PlanFlags &o) {
  if (!o.allow.empty() && !o.hasBudget())
    return usageError("--allow says how a plan within a budget is made; give --budget or "
                      "--memory-limit with it");
  if (o.maxInverseError && !o.allows(kInvertWay))
    return usageError("--max-inverse-error bounds what inverses may be off by, so it goes with "
                      "--allow=invert");
  if (o.maxInverseError && !(*o.maxInverseError >= 0))
    return usageError("--max-inverse-error expects a share from 0 on, such as 1e-3, got {0}",
                      floatText(*o.maxInverseError));
  if (o.iterations && !o.allows(kInvertWay))
    return usageError("--iterations is for inverses, so it goes with --allow=invert");
  if (o.iterations &&
      (*o.iterations < Ways::kLeastIterations || *o.iterations > Ways::kMostIterations))
    return usageError("--iterations expects a number from {0} to {1}, got {2}",
                      Ways::kLeastIterations, Ways::kMostIterations, *o.iterations);
  if (!o.batchNorm.empty() && !o.microBatches)
    return usageError("--batch-norm says what micro-batches share, so it goes with --microbatches");
  if (!o.batch.empty() && !o.microBatches && !o.hasStages && !o.allows(kChunkWay))
    return usageError("--batch and --whole say what is divided with the batch, so they go with "
                      "--microbatches, --stages or --allow=chunk");
  if (o.smallestCheckpoint && o.policy != Policy::Memory)
    return usageError(
        "--smallest-checkpoint bounds the bottlenecks that a policy keeps, so it goes "
        "with --policy=memory");
  if (o.hostMemory && !o.allows(kFetchWay))
    return usageError("--host-memory bounds what is fetched, so it goes with --allow=fetch");
  return llvm::Error::success();
}

llvm::Error checkOptions(const ModelOptions &o) {
  if (o.model == "-" && processGroup())
    return usageError("under mpirun a model cannot come from standard input, which one process "
                      "alone has; give a file that all processes can read");
  if (o.eval && o.asWritten)
    return usageError("--eval and --as-written exclude each other; give one");
  LossKind kind = LossKind::Value;
  if (!o.loss.empty()) {
    auto loss = parseLoss(o.loss);
    if (!loss)
      return usageError("--loss: {0}", plainMessage(loss.takeError()));
    kind = loss->kind;
  }
  if (o.classAxis != 1 && kind != LossKind::CrossEntropy)
    return usageError("--class-axis is the axis of classes, so it goes with --loss=cross_entropy");
  if (o.ignoreIndex && kind != LossKind::CrossEntropy)
    return usageError("--ignore-index is for labels, so it goes with --loss=cross_entropy");
  if (!o.precision.empty() && o.precision != kTf32) {
    auto type = parseDType(o.precision);
    if (!type || !isFloat(*type))
      return usageError("--precision expects f32, f64, bf16, f16 or tf32, got '{0}'", o.precision);
  }
  Console::get().setProgress(o.progress == "plain"  ? Progress::Plain
                             : o.progress == "none" ? Progress::None
                                                    : Progress::Auto);
  return llvm::Error::success();
}

llvm::Error checkOptions(const PlanFlags &o) {
  if (bool(o.policy) + bool(o.checkpoints) + bool(o.budget) > 1)
    return usageError("--policy, --checkpoints and --budget are ways to choose what is kept; "
                      "give one of them");
  if (llvm::Error e = checkStages(o))
    return e;
  return checkWays(o);
}

llvm::Expected<std::vector<std::pair<std::string, std::string>>> tiesOf(const ModelOptions &o) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string &text : o.ties) {
    std::vector<NamePattern> names = parseNameList(text);
    if (names.size() != 2)
      return usageError("--tie expects two names with a comma between, such as "
                        "--tie=embed.weight,head.weight, got '{0}'",
                        text);
    out.push_back({names[0].text, names[1].text});
  }
  return out;
}

llvm::Expected<std::map<std::string, int64_t>> dimBindings(const ModelOptions &o) {
  std::map<std::string, int64_t> out;
  for (const std::string &text : o.dims) {
    auto [name, size] = llvm::StringRef(text).rsplit('=');
    int64_t value = 0;
    if (name.empty() || size.getAsInteger(10, value) || value <= 0)
      return usageError(
          "--dim expects NAME=SIZE with a positive size, such as --dim N=8, got '{0}'", text);
    if (auto [at, isNew] = out.try_emplace(name.str(), value); !isNew && at->second != value)
      return usageError("--dim expects one size for '{0}', got {1} and {2}", name, at->second,
                        value);
  }
  return out;
}

} // namespace isthmus
