#include "ir/file.h"
#include "ir/loss_value.h"
#include "passes/rewrite/original.h"
#include "passes/train/evaluation.h"
#include "tools/cli/execute.h"
#include "tools/cli/exit.h"
#include "tools/cli/first_step.h"
#include "tools/cli/processes.h"
#include "tools/cli/step.h"
#include "tools/session/agreement.h"
#include "tools/train/flags.h"
#include "tools/train/inverse_watch.h"
#include "tools/train/plan_on_record.h"
#include "tools/train/run_record.h"
#include "tools/verbs/verbs.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace isthmus {
namespace {

// The steps of a training command, in order.
class TrainVerb {
public:
  explicit TrainVerb(TrainFlags f) : f_(std::move(f)) {}

  llvm::Error run() {
    if (llvm::Error e = settle(f_))
      return e;
    if (llvm::Error e = readSavedState())
      return e;
    if (llvm::Error e = loadModel())
      return e;
    if (llvm::Error e = openData())
      return e;
    if (llvm::Error e = addUpdates())
      return e;
    if (llvm::Error e = compileStep())
      return e;
    if (llvm::Error e = prepareEvaluation())
      return e;
    if (llvm::Error e = openSession())
      return e;
    return device().computes() ? train() : count();
  }

private:
  Device &device() { return *step_->device; }
  const Compiled &plan() const { return trained_.compiled; }

  // A resumed run draws from the seed with which it began.
  llvm::Error readSavedState() {
    if (f_.resume.empty())
      return llvm::Error::success();
    if (llvm::Error e = readCheckpoint(f_.resume).moveInto(saved_.emplace()))
      return e;
    if (f_.model.seedGiven && f_.model.seed != saved_->seed)
      return usageError("--seed={0} is not that of '{1}', which began with {2}; leave it out",
                        f_.model.seed, f_.resume, saved_->seed);
    if (f_.model.seed != saved_->seed)
      Console::get().note(llvm::formatv("the seed is {0}, with which the run of '{1}' began",
                                        saved_->seed, f_.resume)
                              .str());
    f_.model.seed = saved_->seed;
    return llvm::Error::success();
  }

  llvm::Error loadModel() {
    CommandPaths paths;
    paths.reads("--data", f_.data);
    paths.reads("--eval-data", f_.evalData);
    // A run may save to the file from which it resumed: the file is read before it is written.
    if (f_.save.empty() || f_.resume.empty() || fileIdentity(f_.save) != fileIdentity(f_.resume))
      paths.reads("--resume", f_.resume);
    paths.writes("--save", f_.save);
    paths.writes("--report", f_.report);
    auto step = stepToCompile(f_.model, f_.plan, f_.device, paths);
    if (!step)
      return step.takeError();
    step_ = std::move(*step);
    if (!device().computes() && !f_.save.empty())
      return usageError("--save needs a device that computes, and '{0}' only counts", f_.device);
    modelDigest_ = digestOf(originalOf(step_->graph));
    auto g = prepared(std::move(step_->graph), step_->options);
    if (!g)
      return g.takeError();
    // From here on the graph is in its precision and mode, and differentiated.
    step_->options.precision.reset();
    step_->options.differentiates = false;
    step_->options.step.mode = ModeSource::Rule;
    if (!f_.plan.any())
      planAsOnRecord(*g, step_->options);
    step_->graph = g->wasPlanned() ? originalOf(*g) : std::move(*g);
    return llvm::Error::success();
  }

  llvm::Error openData() {
    auto file = Npz::open(f_.data);
    if (!file)
      return file.takeError();
    const DataOptions options{f_.model.seed, f_.levels};
    const Graph &g = step_->graph;
    auto open = [&](const Npz &from, Split split, std::optional<Dataset> &to) -> llvm::Error {
      auto data = Dataset::of(from, g, split, step_->given, options);
      if (!data)
        return data.takeError();
      to = std::move(*data);
      return llvm::Error::success();
    };
    if (llvm::Error e = open(*file, Split::Train, data_))
      return e;
    if (int64_t rest = data_->examples() % data_->batch())
      Console::get().note(
          llvm::formatv("{0} examples make {1} batches of {2} an epoch; the {3} that are left are "
                        "left out, others in each epoch",
                        data_->examples(), data_->wholeBatches(), data_->batch(), rest)
              .str());
    if (f_.evalData.empty())
      return Dataset::isIn(*file, g, Split::Test) ? open(*file, Split::Test, tests_)
                                                  : llvm::Error::success();
    auto own = Npz::open(f_.evalData);
    if (!own)
      return own.takeError();
    return open(*own, Split::Own, tests_);
  }

  llvm::Error addUpdates() {
    Graph &g = step_->graph;
    const ValueId loss = lossOf(g);
    if (!loss || !isFloat(g.type(loss).dtype))
      return addRemedy(locate(makeError("the graph names no loss"), g.sourceFile),
                       {"loss", "cross_entropy", ""});
    if (!llvm::is_contained(g.outputs(), loss))
      g.addOutput(loss);
    const OptimizerOptions options = optimizerOf(f_.optimizer);
    auto updated = withUpdates(g, options);
    if (!updated)
      return updated.takeError();
    updated_ = std::move(*updated);
    if (options.clipNorm)
      Console::get().note("clipping by their norm needs all gradients before the first update: " +
                          bytesText(updated_.gradientBytes) + " at once");
    return llvm::Error::success();
  }

  // Inverses are measured on the run's first examples, also if it resumes at later ones, so that
  // the plan is the same.
  llvm::Error compileStep() {
    GivenInputs first = step_->given;
    Shuffle shuffle(f_.model.seed, data_->examples());
    for (NamedTensor &t : data_->batchOf(shuffle.epoch(0).take_front(size_t(data_->batch())), 0))
      first[t.name] = Given{std::move(t.tensor), f_.data};
    compileOptions_ = step_->options;
    compileOptions_.firstStep = firstStepOn(device(), first, f_.model.seed);
    if (saved_)
      for (const NotInverted &n : saved_->notInverted)
        compileOptions_.ways.neverInverted.push_back(n.value);
    auto c = compiled(updated_.graph, compileOptions_, device().target(), f_.report);
    if (!c)
      return c.takeError();
    if (c->wasInterrupted)
      return interruptedError();
    compileOptions_.step.note = {}; // a later plan would say the same
    trained_.compiled = std::move(*c);
    report_.emplace(plan().figures);
    report_->addInverseErrors(0, plan().figures.inverseErrors);
    report_->optimizer = f_.optimizer.optimizer;
    report_->optimizerBytes = updated_.optimizerBytes;
    report_->gradientBytes = updated_.gradientBytes;
    report_->holdsAllGradients = f_.optimizer.clipNorm.has_value();
    report_->examples = data_->examples();
    report_->batch = data_->batch();
    return llvm::Error::success();
  }

  llvm::Error prepareEvaluation() {
    if (!tests_)
      return llvm::Error::success();
    const auto mode = f_.model.asWritten ? EvaluationMode::AsWritten : EvaluationMode::Inference;
    CompileOptions options = step_->options;
    options.step.note = {}; // the training step has already printed these notes
    auto evaluator = Evaluator::create(evaluationOf(step_->graph, mode), options, step_->given,
                                       std::move(*tests_), f_.levels, device());
    if (!evaluator)
      return evaluator.takeError();
    evaluator_ = std::move(*evaluator);
    report_->evaluationArenaBytes = evaluator_->arenaBytes();
    return llvm::Error::success();
  }

  llvm::Error openSession() {
    trained_.rate = plan().graph.find(updated_.graph.valueName(updated_.rate));
    return fedSession(plan(), device(), {.seed = f_.model.seed, .inputs = step_->given})
        .moveInto(trained_.session);
  }

  llvm::Expected<RunState> startingState(const TrainerOptions &options) {
    RunState now;
    now.record = recordOf(f_, {modelDigest_, step_->given, *data_, plan(), options});
    now.seed = f_.model.seed;
    now.examples = data_->examples();
    now.batch = data_->batch();
    now.optimizer = f_.optimizer.optimizer;
    if (!saved_)
      return now;
    if (llvm::Error e = checkGoesOn(f_.resume, *saved_, now))
      return e;
    noteDifferences(now.record);
    if (llvm::Error e = restore(f_.resume, plan().graph, *trained_.session))
      return e;
    saved_->record = std::move(now.record);
    return *saved_;
  }

  // Of processes that train together, each has read the files itself.
  llvm::Error checkAllTrainAlike(const RunState &state) const {
    if (!processGroup())
      return llvm::Error::success();
    std::vector<NamedFact> facts = {{"--seed", std::to_string(state.seed)},
                                    {"the first step", std::to_string(state.step)},
                                    {"--save", f_.save.empty() ? "not given" : "given"},
                                    {"--save-every", std::to_string(f_.saveEvery)},
                                    {"the evaluation", evaluator_ ? "there" : "not there"}};
    for (const auto &[array, digest] : data_->digestsOfArrays())
      facts.push_back({"the array '" + array + "' of --data", digest, " in '" + f_.data + "'"});
    for (const auto &[name, value] : state.record)
      facts.push_back({name, value});
    return checkAllHave(facts, "data or options", *processGroup());
  }

  void noteDifferences(const RunRecord &now) const {
    if (saved_->record.empty())
      return Console::get().note("'" + f_.resume +
                                 "' does not say with which model, data and options it was saved, "
                                 "so they are not compared: an older version wrote it");
    if (const std::string text = differencesOf(saved_->record, now); !text.empty())
      Console::get().note("'" + f_.resume +
                          "' was saved by a run that differs, so the bits are not those of a run "
                          "that never stopped: " +
                          text);
  }

  llvm::Error train() {
    auto options = trainerOptions(f_, data_->wholeBatches());
    if (!options)
      return options.takeError();
    auto state = startingState(*options);
    if (!state)
      return state.takeError();
    if (llvm::Error e = checkAllTrainAlike(*state))
      return e;
    report_->firstStep = state->step;
    if (state->step >= options->rate.steps)
      Console::get().note(llvm::formatv("'{0}' has step {1}, and the run has {2}: nothing is left "
                                        "to do",
                                        f_.resume, state->step, options->rate.steps)
                              .str());
    report_->notInverted = state->notInverted;
    InverseWatch watch(updated_.graph, device(),
                       {compileOptions_, f_.model.seed, f_.measureInverses, options->rate.steps});
    noteMeasuring();
    llvm::Error failed =
        Trainer(trained_, watch, *data_, evaluator_.get(), *options).run(*state, *report_);
    if (trained_.session) { // none, if a new plan could not be run
      KernelCounts counts = trained_.session->kernelCounts();
      report_->kernels = std::move(counts.byLibrary);
      report_->substituteKernels = counts.substitutes;
    }
    for (const std::string &note : device().takeNotes()) {
      Console::get().note(note);
      report_->deviceNotes.push_back(note);
    }
    failed = llvm::joinErrors(std::move(failed), writeTrainReport(*report_, f_.report));
    if (failed)
      return failed;
    summarize(*state);
    return llvm::Error::success();
  }

  // A device that only counts runs one step.
  llvm::Error count() {
    if (llvm::Error e = trained_.session->step(0))
      return e;
    report_->measuredPeakBytes = {trained_.session->largestMeasuredPeak()};
    if (llvm::Error e = writeTrainReport(*report_, f_.report))
      return e;
    summarize({});
    return llvm::Error::success();
  }

  void noteMeasuring() const {
    if (plan().figures.inverseErrors.empty())
      return;
    if (f_.measureInverses == 0)
      Console::get().note(
          "the errors of inverses are those of the first step: --measure-inverses=0");
    else
      Console::get().note(llvm::formatv("the errors of inverses are measured again after every {0} "
                                        "steps (--measure-inverses), each time by one more step "
                                        "beside this one",
                                        f_.measureInverses)
                              .str());
  }

  // The inverses of the last plan, and their largest error over the run.
  std::string inversesOfRun() const {
    std::string text = std::to_string(report_->inversions);
    if (const TrainReport::InverseError *e = report_->largestInverseError())
      text += llvm::formatv(", off by {0:e1} at most, after {1} steps", e->error, e->step).str();
    if (!report_->notInverted.empty())
      text += llvm::formatv("; {0} values no longer inverted", report_->notInverted.size()).str();
    return text;
  }

  void summarize(const RunState &state) {
    auto row = [](const char *name, const std::string &value) {
      Console::get().line(llvm::formatv("{0,-20}{1}", name, value).str());
    };
    const TrainReport &r = *report_;
    auto fromTo = [&](const char *name, const std::vector<double> &list) {
      if (!list.empty())
        row(name, llvm::formatv("{0:F4} to {1:F4}", list.front(), list.back()).str());
    };
    fromTo("loss", r.loss);
    fromTo("bits per dimension", r.bitsPerDimension);
    if (state.step > 0)
      row("steps", llvm::formatv("{0}, {1} epochs", state.step, state.epoch).str());
    row("baseline peak", bytesText(r.baselinePeakBytes));
    row("predicted peak", bytesText(r.predictedPeakBytes));
    if (!r.measuredPeakBytes.empty())
      row("measured peak",
          bytesText(r.measuredPeakBytes.front()) + " (on " + device().name() + ")");
    row("parameters, inputs", bytesText(r.persistentBytes));
    if (r.inversions || r.largestInverseError())
      row("inverses", inversesOfRun());
    row("added cost", llvm::formatv("{0:F1} %", 100 * r.recomputeOverhead).str());
    std::vector<double> s = r.stepSeconds;
    std::sort(s.begin(), s.end());
    if (!s.empty())
      row("step time", secondsText(s[s.size() / 2]));
    if (!f_.save.empty() && state.step > 0)
      row("saved", f_.save);
  }

  TrainFlags f_;
  std::optional<RunState> saved_;     // of --resume
  std::string modelDigest_;           // of the model as the file has it
  std::optional<StepToCompile> step_; // its graph is a training step with gradients
  std::optional<Dataset> data_, tests_;
  UpdatedGraph updated_;
  CompileOptions compileOptions_; // of the step with its updates
  TrainedStep trained_;
  std::optional<TrainReport> report_;
  std::unique_ptr<Evaluator> evaluator_; // null without tests
};

// The options have a group of their own, so that --help shows them together.
void addRunOptions(CLI::App &app, TrainFlags &f) {
  addPathOption(
      app, "--data", f.data,
      "an .npz file with an array for each input, named like the input, or x_train for the first "
      "input and y_train for labels; an array's first size is the number of examples")
      ->required();
  addPathOption(app, "--eval-data", f.evalData,
                "an .npz file to evaluate on after each epoch; default: x_test and y_test of "
                "--data, if they are there");
  app.add_option("--levels", f.levels,
                 "the number of values of an element of the first input, which the data give as "
                 "whole numbers from 0 on; the model is fed (number + noise) / levels - 1/2, and "
                 "the loss is reported in bits per dimension too");
  app.add_option("--steps", f.steps, "steps of the whole run")->check(positiveInteger());
  app.add_option("--epochs", f.epochs,
                 "how often the run goes through the data, in place of --steps; default: 10")
      ->check(positiveInteger());
  addPathOption(app, "--save", f.save,
                "a .safetensors file for the parameters, the optimizer's state and the run's "
                "position; it is written at the end of each epoch, and when Ctrl-C ends the run");
  app.add_option("--save-every", f.saveEvery, "steps from one save to the next, in place of epochs")
      ->check(positiveInteger());
  addPathOption(
      app, "--resume", f.resume,
      "continues a run from the file that its --save wrote; --save may name the same file");
  app.add_option("--device", f.device,
                 "cpu, cuda, cuda:N, or counting, which computes nothing and only counts the bytes "
                 "of one step")
      ->capture_default_str();
  app.add_option("--measure-inverses", f.measureInverses,
                 "steps from one measurement of the errors of inverses to the next; 0: the first "
                 "step alone is measured")
      ->capture_default_str();
  addPathOption(app, "--report", f.report, "a JSON file for the figures");
}

void addScheduleOptions(CLI::App &app, TrainFlags &f) {
  const char *group = "Optimizer options";
  app.add_option("--lr", f.rate, "learning rate; default: 0.001, for sgd 0.01")->group(group);
  app.add_option("--lr-schedule", f.schedule,
                 "how the rate changes: constant; cosine or linear, which fall to 0 at the last "
                 "step; step, which divides it by ten at half of the run and at three quarters")
      ->capture_default_str()
      ->group(group);
  app.add_option("--warmup", f.warmup,
                 "steps in which the rate rises linearly to --lr, before the schedule begins")
      ->capture_default_str()
      ->group(group);
}

VerbBody setUp(CLI::App &app) {
  auto f = std::make_shared<TrainFlags>();
  addModelOptions(app, f->model);
  addRunOptions(app, *f);
  addOptimizerFlags(app, f->optimizer, "by PyTorch's formulas");
  addScheduleOptions(app, *f);
  addPlanFlags(app, f->plan);
  app.add_option("--memory", f->memory,
                 "linear: everything is kept; sqrt: as --policy=memory; constant: as --budget=min "
                 "--allow=recompute,invert; or a budget: 2GiB, 500MB, bytes, 50% of linear, min; "
                 "default: linear")
      ->group("Plan options");
  return [f] { return TrainVerb(*f).run(); };
}

} // namespace

const Verb kTrain = {
    "train", "trains a model on arrays of an .npz file, within as much memory as it is given",
    "isthmus train model.onnx --dim N=64 --loss=cross_entropy --data=digits.npz --epochs=20 "
    "--memory=50% --save=model.safetensors",
    setUp};

} // namespace isthmus
