// Each file of golden/ is a case that shows a pass by the graph before it and the graph after it:
//
//   // What it shows.
//   // RUN: PASS OPTION=VALUE ...
//   isthmus 2
//   graph @g { ... }
//   // BECOMES
//   isthmus 2
//   graph @g { ... }
//
// `// STAYS` in place of the last part says that the pass leaves the graph unchanged, and `//
// FAILS` that it gives an error. The messages of the pass follow as `// note:` and `// error:`.
//
//   bazel run //tests/passes:golden_test -- --update
//
// writes the present results of the passes into the files, and reports each change as a failure.
// Read the changes before you commit them.

#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "passes/checkpoint/policy.h"
#include "passes/chunk/request.h"
#include "passes/compile/inverted.h"
#include "passes/differentiate/differentiate.h"
#include "passes/differentiate/mode.h"
#include "passes/differentiate/training_step.h"
#include "passes/lower/channels_last.h"
#include "passes/lower/convert.h"
#include "passes/lower/fuse_bias.h"
#include "passes/lower/lowering.h"
#include "passes/names.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "passes/simplify/drawn_masks.h"
#include "passes/simplify/joined_slices.h"
#include "passes/train/evaluation.h"
#include "passes/train/updates.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <set>

namespace isthmus {
namespace {

// --- The passes by name

// The options of a RUN line. An option that the pass does not read is an error.
class Options {
public:
  static llvm::Expected<Options> parse(llvm::ArrayRef<llvm::StringRef> words) {
    Options o;
    for (llvm::StringRef w : words) {
      auto [name, value] = w.split('=');
      if (value.empty() || !o.values_.try_emplace(name.str(), value.str()).second)
        return makeError("expected OPTION=VALUE, each once, got '{0}'", w);
    }
    return o;
  }
  std::optional<std::string> take(const char *name) {
    auto it = values_.find(name);
    if (it == values_.end())
      return std::nullopt;
    std::string value = it->second;
    values_.erase(it);
    return value;
  }
  llvm::Expected<std::string> need(const char *name) {
    if (auto value = take(name))
      return *value;
    return makeError("the pass needs {0}=...", name);
  }
  llvm::Error finish() const {
    if (values_.empty())
      return llvm::Error::success();
    return makeError("the pass has no option '{0}'", values_.begin()->first);
  }

private:
  std::map<std::string, std::string> values_;
};

struct Run {
  Graph graph;
  Options options;
  std::vector<std::string> notes;

  std::vector<ValueId> values(const std::string &names) {
    return llvm::cantFail(matchValues(graph, names));
  }
  GraphProblem problem(const Ways &ways = {}) {
    Target t;
    t.linkBytesPerSecond = t.bytesPerSecond;
    return llvm::cantFail(extractProblem(graph, t, ways));
  }
};

llvm::Expected<Graph> inMode(Run &r) {
  auto to = r.options.need("to");
  if (!to)
    return to.takeError();
  return withMode(r.graph, *to == "eval" ? Mode::Eval : Mode::Training);
}

llvm::Expected<Graph> inPrecision(Run &r) {
  auto to = r.options.need("to");
  if (!to)
    return to.takeError();
  return withPrecision(r.graph, *parseDType(*to),
                       [&](const Remark &remark) { r.notes.push_back(remark.text); });
}

llvm::Expected<Graph> lowering(Run &r) {
  LoweringOptions o;
  o.fusesBias = r.options.take("bias") == "fused";
  if (auto type = r.options.take("channels-last"))
    o.channelsLast = {*parseDType(*type)};
  return lowered(r.graph, o);
}

llvm::Expected<Graph> stepOf(Run &r) {
  StepOptions o;
  if (auto text = r.options.take("loss")) {
    auto loss = parseLoss(*text);
    if (!loss)
      return loss.takeError();
    o.loss = *loss;
    if (auto axis = r.options.take("class-axis"))
      o.loss->classAxis = std::atoll(axis->c_str());
    if (auto label = r.options.take("ignore-index"))
      o.loss->ignoreIndex = std::atoll(label->c_str());
  }
  if (auto wrt = r.options.take("wrt"))
    o.wrt = *wrt == "inputs" ? Wrt{Wrt::Kind::Inputs, ""} : Wrt{Wrt::Kind::Named, *wrt};
  if (r.options.take("mode") == "as-written")
    o.mode = ModeSource::AsWritten;
  o.note = [&](const Remark &remark) { r.notes.push_back(remark.text); };
  return trainingStep(r.graph, o);
}

llvm::Expected<Graph> gradientsOf(Run &r) {
  auto ys = r.options.need("ys"), xs = r.options.need("xs");
  if (!ys || !xs)
    return llvm::joinErrors(ys.takeError(), xs.takeError());
  std::vector<ValueId> seeds, by = r.values(*xs);
  if (auto names = r.options.take("seeds"))
    seeds = r.values(*names);
  auto grads = gradients(r.graph, r.values(*ys), by, seeds);
  if (!grads)
    return grads.takeError();
  addGradientOutputs(r.graph, by, *grads);
  return r.graph;
}

llvm::Expected<Graph> byPolicy(Run &r) {
  PolicyOptions o;
  auto name = r.options.need("keep");
  if (!name)
    return name.takeError();
  o.policy = *parsePolicy(*name);
  o.checkpoints = r.options.take("checkpoints").value_or("");
  GraphProblem p = r.problem();
  auto planned = planPolicy(r.graph, p, o);
  if (!planned)
    return planned.takeError();
  r.notes.push_back(llvm::formatv("{0}, peak {1} -> {2} bytes, {3} recomputed",
                                  plannedByText(planned->policyUsed), planned->baseline.peakBytes,
                                  planned->planned.peakBytes, planned->planned.recomputed)
                        .str());
  for (const Remark &note : planned->notes)
    r.notes.push_back(note.text + remediesText(note.remedies));
  return rematerialize(r.graph, p, planned->schedule);
}

llvm::Expected<Ways> waysOf(const std::string &names) {
  Ways ways{.recompute = false};
  for (llvm::StringRef name : llvm::split(names, ','))
    if (bool *way = llvm::StringSwitch<bool *>(name)
                        .Case("recompute", &ways.recompute)
                        .Case("fetch", &ways.fetch)
                        .Case("encode", &ways.encode)
                        .Case("invert", &ways.invert)
                        .Default(nullptr))
      *way = true;
    else
      return makeError("there is no way '{0}'", name);
  return ways;
}

// `runs` names the ops of the problem in the order in which they run: the nodes and, if `ways`
// allow them, the alternatives.
llvm::Expected<Graph> bySchedule(Run &r) {
  auto runs = r.options.need("runs");
  auto ways = waysOf(r.options.take("ways").value_or("recompute"));
  if (!runs || !ways)
    return llvm::joinErrors(runs.takeError(), ways.takeError());
  GraphProblem p = r.problem(*ways);
  plan::Schedule s;
  for (llvm::StringRef name : llvm::split(*runs, ',')) {
    auto op = llvm::find_if(p.problem.ops, [&](const plan::Op &o) { return o.name == name; });
    if (op == p.problem.ops.end() || op->isPinned)
      return makeError("no op is called '{0}'", name);
    s.push_back(plan::OpIndex(op - p.problem.ops.begin()));
  }
  plan::Evaluation e = plan::evaluate(p.problem, s);
  if (!e.error.empty())
    return makeError("the schedule is not valid: {0}", e.error);
  r.notes.push_back(llvm::formatv("peak {0} bytes", e.peakBytes).str());
  return rematerialize(r.graph, p, s);
}

llvm::Expected<Graph> updatesOn(Run &r) {
  OptimizerOptions o;
  auto name = r.options.need("optimizer");
  if (!name)
    return name.takeError();
  o.kind = *parseOptimizer(*name);
  auto takeNumber = [&](const char *option, double otherwise) {
    auto text = r.options.take(option);
    return text ? std::atof(text->c_str()) : otherwise;
  };
  o.momentum = takeNumber("momentum", 0);
  o.weightDecay = takeNumber("weight-decay", 0);
  if (double norm = takeNumber("clip-norm", 0); norm > 0)
    o.clipNorm = norm;
  auto updated = withUpdates(r.graph, o);
  if (!updated)
    return updated.takeError();
  r.notes.push_back(llvm::formatv("{0} parameters, {1} bytes of gradients, {2} of state; %{3}",
                                  updated->parameters, updated->gradientBytes,
                                  updated->optimizerBytes, updated->graph.valueName(updated->rate))
                        .str());
  return updated->graph;
}

llvm::Expected<Graph> inverse(Run &r) {
  auto ys = r.options.need("ys"), xs = r.options.need("xs");
  if (!ys || !xs)
    return llvm::joinErrors(ys.takeError(), xs.takeError());
  return inverted(r.graph, {}, *ys, *xs);
}

llvm::Expected<Graph> inChunks(Run &r) {
  auto text = r.options.need("at");
  if (!text)
    return text.takeError();
  auto request = parseChunkRequest(*text);
  if (!request)
    return request.takeError();
  return chunkedAsAsked(r.graph, *request);
}

llvm::Expected<Graph> microBatched(Run &r) {
  auto number = r.options.need("number");
  if (!number)
    return number.takeError();
  std::vector<BatchRequest> batch;
  if (const auto axis = r.options.take("batch")) {
    auto request = parseBatchRequest(*axis);
    if (!request)
      return request.takeError();
    batch.push_back(std::move(*request));
  }
  return inMicroBatches(r.graph, std::atoll(number->c_str()), batch);
}

using Pass = llvm::Expected<Graph> (*)(Run &);
const std::map<std::string, Pass> kPasses = {
    {"chunk", inChunks},
    {"micro-batches", microBatched},
    {"mode", inMode},
    {"idle-drops", [](Run &r) -> llvm::Expected<Graph> { return withoutIdleDrops(r.graph); }},
    {"training-step", stepOf},
    {"gradients", gradientsOf},
    {"updates", updatesOn},
    {"evaluation",
     [](Run &r) -> llvm::Expected<Graph> {
       return evaluationOf(r.graph, r.options.take("mode") == "as-written"
                                        ? EvaluationMode::AsWritten
                                        : EvaluationMode::Inference);
     }},
    {"dead-code", [](Run &r) -> llvm::Expected<Graph> { return withoutDeadNodes(r.graph); }},
    {"drawn-masks", [](Run &r) -> llvm::Expected<Graph> { return withoutDrawnMasks(r.graph); }},
    {"joined-slices", [](Run &r) -> llvm::Expected<Graph> { return withJoinedSlices(r.graph); }},
    {"precision", inPrecision},
    {"lowering", lowering},
    {"channels-last", [](Run &r) -> llvm::Expected<Graph> { return withChannelsLast(r.graph); }},
    {"fused-bias", [](Run &r) -> llvm::Expected<Graph> { return withFusedBias(r.graph); }},
    {"policy", byPolicy},
    {"schedule", bySchedule},
    {"invert", inverse},
    {"original", [](Run &r) -> llvm::Expected<Graph> { return originalOf(r.graph); }},
};

// --- Cases

bool updates = false;

// The folder of the source tree if files are written, and that of the test's data otherwise.
std::string folder() {
  const char *root = updates ? std::getenv("BUILD_WORKSPACE_DIRECTORY") : nullptr;
  return (root ? std::string(root) + "/" : "") + "tests/passes/golden";
}

std::vector<std::string> filesIn(const std::string &path) {
  std::vector<std::string> files;
  std::error_code e;
  for (llvm::sys::fs::directory_iterator i(path, e), end; !e && i != end; i.increment(e))
    files.push_back(llvm::sys::path::filename(i->path()).str());
  llvm::sort(files);
  return files;
}

struct Case {
  std::string file;
  std::string given;   // up to the end of the graph before the pass
  std::string outcome; // from BECOMES, STAYS or FAILS on
  std::string pass;
  Options options;
};

bool beginsOutcome(llvm::StringRef line) {
  return line == "// BECOMES" || line == "// STAYS" || line == "// FAILS";
}

llvm::Expected<Case> readCase(const std::string &file) {
  auto text = llvm::MemoryBuffer::getFile(folder() + "/" + file);
  if (!text)
    return makeError("{0}: {1}", file, text.getError().message());
  Case c{file, {}, {}, {}, {}};
  for (llvm::StringRef rest = (*text)->getBuffer(); !rest.empty();) {
    auto [line, next] = rest.split('\n');
    std::string &part = !c.outcome.empty() || beginsOutcome(line) ? c.outcome : c.given;
    part += line.str() + "\n";
    rest = next;
    if (!line.consume_front("// RUN: "))
      continue;
    llvm::SmallVector<llvm::StringRef, 4> words;
    llvm::SplitString(line, words);
    auto options = Options::parse(llvm::makeArrayRef(words).drop_front());
    if (!options || !c.pass.empty())
      return options ? makeError("{0} has two RUN lines", file) : options.takeError();
    c.pass = words[0].str();
    c.options = *options;
  }
  if (!kPasses.count(c.pass))
    return makeError("{0}: '// RUN: PASS' with a pass of this table is expected, got '{1}'", file,
                     c.pass);
  return c;
}

std::string commented(const char *what, llvm::StringRef text) {
  std::string out;
  for (llvm::StringRef line : llvm::split(text.rtrim(), '\n'))
    out += (llvm::Twine("// ") + what + line + "\n").str();
  return out;
}

std::string diffOf(const std::string &expected, const std::string &got) {
  auto linesOf = [](const std::string &text) {
    std::vector<std::string> lines;
    for (llvm::StringRef line : llvm::split(llvm::StringRef(text).rtrim(), '\n'))
      lines.push_back(line.str());
    return lines;
  };
  return testing::internal::edit_distance::CreateUnifiedDiff(linesOf(expected), linesOf(got));
}

// Returns the text that the file should have from BECOMES, STAYS or FAILS on.
std::string outcomeOf(const Case &c, Graph given) {
  const std::string before = graphText(given);
  Run r{std::move(given), c.options, {}};
  llvm::Expected<Graph> g = kPasses.at(c.pass)(r);
  EXPECT_EQ(llvm::toString(r.options.finish()), "");
  std::string notes;
  for (const std::string &note : r.notes)
    notes += commented("note: ", note);
  if (!g)
    return "// FAILS\n" + notes + commented("", llvm::toString(g.takeError()));
  EXPECT_EQ(llvm::toString(verify(*g)), "");
  const std::string after = graphText(*g);
  return after == before ? "// STAYS\n" + notes : "// BECOMES\n" + notes + after;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsWhatThePassMakes) {
  auto c = readCase(GetParam());
  ASSERT_TRUE(bool(c)) << llvm::toString(c.takeError());
  auto given = parseGraph(c->given, c->file);
  ASSERT_TRUE(bool(given)) << llvm::toString(given.takeError());
  EXPECT_EQ(llvm::toString(verify(*given)), "");
  EXPECT_TRUE(llvm::StringRef(c->given).startswith("// ") &&
              !llvm::StringRef(c->given).startswith("// RUN"))
      << "the first line says what the case shows";

  const std::string outcome = outcomeOf(*c, std::move(*given));
  EXPECT_TRUE(c->outcome == outcome) << c->file << " (-) and what the pass makes of it (+):\n"
                                     << diffOf(c->outcome, outcome);
  if (updates && c->outcome != outcome)
    std::ofstream(folder() + "/" + c->file) << c->given << outcome;
}

// The expected graph is legal by itself, and is in the printer's form.
TEST_P(Golden, ExpectsALegalGraph) {
  auto c = readCase(GetParam());
  ASSERT_TRUE(bool(c)) << llvm::toString(c.takeError());
  if (!llvm::StringRef(c->outcome).startswith("// BECOMES\n"))
    return;
  auto expected = parseGraph(c->outcome, c->file);
  ASSERT_TRUE(bool(expected)) << llvm::toString(expected.takeError());
  EXPECT_EQ(llvm::toString(verify(*expected)), "");
  EXPECT_TRUE(llvm::StringRef(c->outcome).endswith("\n" + graphText(*expected)));
}

INSTANTIATE_TEST_SUITE_P(
    Passes, Golden, testing::ValuesIn(filesIn("tests/passes/golden")), [](const auto &info) {
      return llvm::StringRef(info.param).take_until([](char c) { return c == '.'; }).str();
    });

TEST(GoldenFiles, AreAllCasesAndShowEveryPass) {
  std::set<std::string> shown;
  for (const std::string &file : filesIn(folder())) {
    EXPECT_TRUE(llvm::StringRef(file).endswith(".isth")) << file;
    if (auto c = readCase(file))
      shown.insert(c->pass);
    else
      ADD_FAILURE() << llvm::toString(c.takeError());
  }
  for (const auto &[name, pass] : kPasses)
    EXPECT_TRUE(shown.count(name)) << "no case shows '" << name << "'";
}

} // namespace
} // namespace isthmus

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  isthmus::updates = argc > 1 && llvm::StringRef(argv[1]) == "--update";
  return RUN_ALL_TESTS();
}
