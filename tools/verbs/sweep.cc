#include "ir/file.h"
#include "tools/cli/budget.h"
#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/exit.h"
#include "tools/cli/optimizer_flags.h"
#include "tools/cli/stage_flags.h"
#include "tools/cli/zoo_options.h"
#include "tools/sweep/fit.h"
#include "tools/sweep/picture.h"
#include "tools/sweep/table.h"
#include "tools/verbs/verbs.h"
#include "llvm/Support/raw_ostream.h"
#include <numeric>

namespace isthmus {
namespace {

constexpr size_t kMostPoints = 1000;      // limit of the points of a sweep
constexpr int64_t kMostBatch = 1 << 20;   // limit of --fit, if it chooses the batches
constexpr int64_t kMostDepth = 1000;      // limit of --fit, if it chooses the depths
constexpr size_t kMostSizes = kMostBatch; // limit of a list or range for --fit

struct Options {
  ModelOptions model;
  ZooOptions zoo;
  PlanFlags plan;
  std::optional<std::string> budgets, batch, depth; // as typed; empty for an option without a value
  OptimizerFlags optimizer;
  std::string policies, fit, device = "cpu";
  std::vector<std::string> outputs;
  bool runs = false;
  std::optional<int> steps;
  std::string typed; // the options, for titles
};

// --- Which axis

// Chooses the axis from --batch and --depth; the other one may hold a fixed size.
llvm::Error setSizes(const Options &o, SweepSpec &spec) {
  const bool isFit = !o.fit.empty();
  struct Size {
    const char *option;
    SweepAxis axis;
    const std::optional<std::string> &text;
    std::optional<int64_t> &fixed;
    std::vector<int64_t> counts;
  } sizes[] = {{"--batch", SweepAxis::Batch, o.batch, spec.fixed.batch, {}},
               {"--depth", SweepAxis::Depth, o.depth, spec.fixed.depth, {}}};
  std::vector<Size *> given, swept;
  for (Size &s : sizes) {
    if (!s.text)
      continue;
    given.push_back(&s);
    if (!isFit && s.text->empty())
      return usageError("{0} expects values, such as {0}=8,16,32; without any it goes with --fit",
                        s.option);
    if (!(isFit && s.text->empty()))
      if (llvm::Error e =
              parseCounts(s.option, *s.text, isFit ? kMostSizes : kMostPoints).moveInto(s.counts))
        return e;
    if (s.counts.size() != 1)
      swept.push_back(&s);
  }
  if (o.budgets) {
    if (!swept.empty())
      return usageError("--budgets and {0} are two axes; sweep one, and give the other one value",
                        swept.front()->option);
  } else if (swept.size() > 1 || (isFit && swept.empty() && given.size() > 1)) {
    return usageError("expected one axis, got --batch and --depth; give one of them one value, and "
                      "the other {0}",
                      isFit ? "none, or a range" : "a list such as 8,16,32");
  } else if (given.empty()) {
    return isFit ? usageError("--fit expects --batch or --depth beside it: the size to make as "
                              "large as possible")
                 : usageError("expected an axis to sweep: --budgets=90%,70%,50%, --batch=1,2,4 or "
                              "--depth=8,16,32");
  } else if (swept.empty()) {
    swept = {given.back()}; // a sweep of one point
  }
  for (Size *s : given)
    if (llvm::is_contained(swept, s)) {
      spec.axis = s->axis;
      spec.counts = std::move(s->counts);
    } else {
      s->fixed = s->counts.front();
    }
  return llvm::Error::success();
}

llvm::Expected<SweepSpec> specOf(const Options &o) {
  SweepSpec spec;
  if (o.budgets && !o.fit.empty())
    return usageError("--fit looks for a batch or a depth, and --budgets is another axis");
  if (llvm::Error e = setSizes(o, spec))
    return e;
  if (o.budgets)
    if (llvm::Error e = parseBudgets("--budgets", *o.budgets, kMostPoints).moveInto(spec.budgets))
      return e;
  if (llvm::Error e = sweepModes(spec.axis, o.policies, o.plan).moveInto(spec.modes))
    return e;
  spec.runs = o.runs;
  spec.steps = o.steps.value_or(5);
  return spec;
}

// --- The other options

llvm::Error checkTogether(const Options &o) {
  if (o.steps && !o.runs)
    return usageError("--steps counts what --run times; give --run with it");
  if (o.fit.empty())
    return llvm::Error::success();
  if (o.runs)
    return usageError("--fit compares plans and runs nothing, so --run has no meaning beside it");
  if (o.plan.memoryLimit)
    return usageError("--fit is a limit on parameters, inputs and arena together, as "
                      "--memory-limit is; give one of them");
  return llvm::Error::success();
}

llvm::Error checkOutputs(const Options &o, CommandPaths &paths) {
  paths.reads("--costs", o.plan.costs);
  paths.reads("--machine", o.plan.machine);
  for (llvm::StringRef path : o.outputs) {
    if (path != "-" && !path.endswith(".csv") && !path.endswith(".svg") && !path.endswith(".html"))
      return usageError("-o expects a file whose name ends in .csv, .svg or .html, got '{0}'",
                        path);
    paths.writes("-o", path.str());
  }
  return paths.check();
}

// --- Results

std::string productFor(llvm::StringRef path, const SweepTable &t) {
  return path.endswith(".svg") ? pictureText(t) : path.endswith(".html") ? pageText(t) : csvText(t);
}

// Writes to files, and a table for people to stderr; without files, to standard output in the form
// that suits a terminal or a pipe.
llvm::Error write(const Options &o, const SweepTable &t, const SweepTable &forEyes) {
  if (o.outputs.empty() && llvm::outs().is_displayed()) {
    llvm::outs() << alignedText(forEyes);
    return llvm::Error::success();
  }
  if (o.outputs.empty())
    return writeFileAtomically("-", csvText(t));
  std::vector<std::string> texts;
  std::vector<std::function<llvm::Error(llvm::raw_pwrite_stream &)>> writers;
  std::vector<NewFile> files;
  for (const std::string &path : o.outputs)
    texts.push_back(productFor(path, t));
  for (const std::string &text : texts)
    writers.push_back([&text](llvm::raw_pwrite_stream &os) {
      os << text;
      return llvm::Error::success();
    });
  for (size_t i = 0; i < texts.size(); ++i)
    files.push_back({o.outputs[i], writers[i]});
  if (llvm::Error e = writeFilesTogether(files))
    return e;
  if (!llvm::is_contained(o.outputs, "-"))
    Console::get().line(llvm::StringRef(alignedText(forEyes)).rtrim('\n').str());
  return llvm::Error::success();
}

// Replaces an interrupt's error by one that counts the rows.
llvm::Error withRowsCounted(llvm::Error ended, const SweepTable &t) {
  return llvm::handleErrors(std::move(ended), [&](std::unique_ptr<DiagError> e) -> llvm::Error {
    if (e->kind != ErrorKind::Interrupted)
      return llvm::Error(std::move(e));
    if (t.rows.empty())
      return makeError(ErrorKind::Interrupted, "interrupted before the first row was done");
    return makeError(ErrorKind::Interrupted, "interrupted: {0} rows were done until then",
                     t.rows.size());
  });
}

// The error of a complete sweep. Rows without a plan are no error, because the table shows them,
// unless no row has a plan that fits.
llvm::Error verdict(const SweepTable &t) {
  for (const SweepRow &r : t.rows)
    if (r.state == SweepRow::State::Failed && !r.fits)
      return makeError(ErrorKind::Device, "{0} {1}, {2}: {3}", axisName(t.axis), r.at, r.mode,
                       r.problem);
  auto isMet = [](const SweepRow &r) { return r.isPlanned && r.fits.value_or(true); };
  if (llvm::any_of(t.rows, isMet))
    return llvm::Error::success();
  return makeError(ErrorKind::CannotBeMet,
                   t.fitBytes ? "nothing that was tried fits" : "no row's budget can be met");
}

// --- The verb

SweepTable tableFor(const Options &o, const SweepSpec &spec, Device &device) {
  SweepTable t;
  t.axis = spec.axis;
  t.model = o.model.model;
  t.options = o.typed;
  t.device = "for " + device.target().name;
  if (spec.runs)
    t.device = "measured on " + device.name() + ", " + device.target().name;
  for (const SweepMode &m : spec.modes)
    t.modes.push_back(m.name);
  t.isOfShares = llvm::all_of(spec.budgets,
                              [](const SweepBudget &b) { return b.budget.kind != Budget::Bytes; });
  return t;
}

llvm::Error fit(const Options &o, SweepSpec &spec, SweepSubject &subject, Device &device,
                SweepTable &table, SweepTable &forEyes) {
  if (llvm::Error e = parseSize(o.fit, "--fit").moveInto(table.fitBytes.emplace()))
    return e;
  if (spec.counts.empty() && spec.axis == SweepAxis::Depth) {
    if (llvm::Error e =
            subject.depths(spec.fixed.batch.value_or(0), kMostDepth).moveInto(spec.counts))
      return e;
  } else if (spec.counts.empty()) {
    spec.counts.resize(kMostBatch);
    std::iota(spec.counts.begin(), spec.counts.end(), 1);
  }
  std::sort(spec.counts.begin(), spec.counts.end());
  Fitting fitting(spec, subject, device, table);
  llvm::Error e = fitting.run();
  for (const FitAnswer &a : fitting.answers())
    Console::get().line(answerText(a, table));
  forEyes = proofsOf(fitting.answers(), table);
  return e;
}

llvm::Error sweep(Options o) {
  if (llvm::Error e = checkOptions(o.model))
    return e;
  if (o.runs && !o.plan.machine.empty())
    return usageError("--machine describes devices that need not be here, so --run has no meaning "
                      "beside it");
  if (llvm::Error e = readMachineFlag(o.plan))
    return e;
  if (llvm::Error e = checkTogether(o))
    return e;
  auto spec = specOf(o);
  if (!spec)
    return spec.takeError();
  if (llvm::Error e = checkOptimizer(o.optimizer))
    return e;
  std::optional<OptimizerOptions> optimizer;
  if (!o.optimizer.optimizer.empty())
    optimizer = optimizerOf(o.optimizer);
  CommandPaths paths;
  if (llvm::Error e = checkOutputs(o, paths))
    return e;
  auto device = openDevice(o.device, deviceOptions(o.model, o.plan));
  if (!device)
    return device.takeError();
  auto subject = SweepSubject::open(o.model, o.zoo, std::move(optimizer), paths);
  if (!subject)
    return subject.takeError();
  SweepTable table = tableFor(o, *spec, **device), proofs;
  llvm::Error ended = o.fit.empty() ? Sweeping(*spec, *subject, **device, table).run()
                                    : fit(o, *spec, *subject, **device, table, proofs);
  ended = withRowsCounted(std::move(ended), table);
  if (table.rows.empty())
    return ended;
  if (llvm::Error e = write(o, table, o.fit.empty() ? table : proofs))
    return llvm::joinErrors(std::move(ended), std::move(e));
  return ended ? std::move(ended) : verdict(table);
}

// "--width=32 --run": the options as typed, without the model and the outputs.
std::string typedOptions(const CLI::App &app) {
  std::string text;
  for (const CLI::Option *option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "MODEL" || name == "--output" || name == "--progress")
      continue;
    text += (text.empty() ? "" : " ") + name;
    if (option->get_expected_max() > 0 && !option->as<std::string>().empty())
      text += "=" + llvm::join(option->results(), ",");
  }
  return text;
}

void addAxisOptions(CLI::App &app, Options &o) {
  const char *group = "What to sweep";
  auto axis = [&](const char *name, std::optional<std::string> &text, const char *doc) {
    return app
        .add_option_function<std::string>(
            name, [&text](const std::string &value) { text = value; }, doc)
        ->group(group);
  };
  axis("--budgets", o.budgets,
       "budgets, as a list such as 90%,2GiB,min or a range such as 90%:30%:-10%");
  app.add_option_function<std::string>(
         "--batch",
         [&o](const std::string &value) {
           if (value.rfind('%', 0) == 0)
             takeBatch("--batch", value, o.plan);
           else
             o.batch = value;
         },
         "examples in a batch, as a list or a range such as 8:64:8; or the axis of an input that "
         "they are on, as %x:axis=1")
      ->group(group)
      ->expected(0, 1);
  axis("--depth", o.depth,
       "the depth of a model of the zoo: its blocks or layers, as `isthmus zoo` lists them")
      ->expected(0, 1);
  app.add_option("--fit", o.fit,
                 "finds the largest --batch or --depth, of their list if one is given, for which "
                 "parameters, inputs and arena fit in this: 2GiB, 500MB, bytes; it only makes "
                 "plans, and runs nothing")
      ->group(group);
  app.add_option("--policies", o.policies,
                 "the lines over batches and depths: linear (everything is kept), sqrt (as "
                 "--policy=memory), constant (as --budget=min --allow=recompute,invert), other "
                 "policies and budgets, separated by commas; default: linear,sqrt,constant")
      ->group(group);
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  app.get_option("MODEL")->description(
      "zoo:NAME, such as zoo:resnet, or an .onnx or .isth file, or "
      "- for an .isth on standard input");
  addAxisOptions(app, *o);
  addPlanFlags(app, o->plan);
  addMachineFlag(app, o->plan);
  addOptimizerFlags(app, o->optimizer,
                    "the step then updates its parameters, and a gradient lives until it is used; "
                    "default: gradients are results of the step");
  app.add_option("--device", o->device,
                 "the device that sizes and workspaces are meant for, and that --run runs on")
      ->capture_default_str();
  app.add_flag("--run", o->runs, "runs every plan, and measures its peak and its step time");
  app.add_option(
         "--steps", o->steps,
         "with --run: how many steps of each plan are timed; their median counts; default: 5")
      ->check(positiveInteger());
  app.add_option("-o,--output", o->outputs,
                 "X.csv, X.svg or X.html; repeatable; default: a table on a terminal, else CSV")
      ->take_all()
      ->allow_extra_args(false);
  addZooOptions(app, o->zoo, "Options of zoo:NAME");
  return [o, &app] {
    o->typed = typedOptions(app);
    return sweep(*o);
  };
}

} // namespace

const Verb kSweep = {
    "sweep",
    "shows memory and time against budgets, batch sizes or depths, and finds the largest that fit",
    "isthmus sweep zoo:glow --width=32 --batch=16 --depth=8,16,32,64 -o glow.html\n"
    "  isthmus sweep model.onnx --dim N=8 --loss=cross_entropy --budgets=90%:30%:-10% --run\n"
    "  isthmus sweep zoo:resnet --fit=2GiB --batch",
    setUp};

} // namespace isthmus
