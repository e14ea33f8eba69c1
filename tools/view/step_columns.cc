#include "tools/view/step_columns.h"

#include "ir/provenance.h"
#include "passes/inspect/detail_levels.h"
#include "passes/inspect/module_tree.h"
#include "llvm/ADT/MapVector.h"

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kMapColumns = 1024, kMapRows = 256;

class StepWriter {
public:
  StepWriter(Columns &columns, const std::string &prefix, const Graph &g, Timeline t)
      : to_(columns), prefix_(prefix), g_(g), t_(std::move(t)) {}

  Json run(Detail detail) {
    profile();
    if (detail == Detail::Whole) {
      nodes();
      operands();
      values();
      modules();
      map();
      blocks(); // reorders them
      readers();
    }
    return std::move(facts_);
  }

private:
  std::string name(const char *column) const { return prefix_ + column; }

  void profile() {
    facts_["nodes"] = g_.numNodes();
    facts_["arena_bytes"] = t_.arenaBytes;
    facts_["peak_node"] = t_.peakNode();
    facts_["kinds"] = Json::array();
    for (size_t k = 0; k < kNumLiveKinds; ++k) {
      const std::vector<int64_t> &of = t_.liveOf[k];
      if (of.empty())
        continue;
      facts_["kinds"].push_back(k);
      to_.delta(prefix_ + "live." + std::to_string(k), of.size(), [&](size_t i) { return of[i]; });
    }
    std::vector<uint8_t> extremes;
    for (const std::vector<uint8_t> &level : extremesOf(t_.live))
      extremes.insert(extremes.end(), level.begin(), level.end());
    to_.bytes(name("extremes"), extremes);
  }

  const Node &node(size_t i) const { return g_.node(NodeId(uint32_t(i))); }

  void nodes() {
    const size_t n = g_.numNodes();
    llvm::MapVector<const OpDef *, uint32_t> ops;
    std::vector<uint8_t> phase, standIn;
    for (size_t i = 0; i < n; ++i) {
      ops.insert({node(i).op, uint32_t(ops.size())});
      phase.push_back(uint8_t(node(i).phase));
      standIn.push_back(uint8_t(node(i).from.kind));
    }
    facts_["ops"] = Json::array();
    for (const auto &[op, index] : ops)
      facts_["ops"].push_back({{"name", op->name}, {"view", op->is(kView)}});
    to_.plain(name("node.op"), n, [&](size_t i) { return ops[node(i).op]; });
    to_.bytes(name("node.phase"), phase);
    to_.bytes(name("node.stand_in"), standIn);
    to_.floats(name("node.us"), t_.us);
    to_.delta(name("node.result"), n, [&](size_t i) { return node(i).firstResult.index; });
  }

  void operands() {
    std::vector<uint32_t> all;
    for (size_t i = 0; i < g_.numNodes(); ++i)
      for (ValueId v : node(i).operands)
        all.push_back(v.index);
    to_.plain(name("node.operands"), g_.numNodes(),
              [&](size_t i) { return node(i).operands.size(); });
    to_.delta(name("operands"), all.size(), [&](size_t i) { return all[i]; });
  }

  // Nodes are numbered from 1, and inputs of the graph have node 0. So have values of replaced
  // nodes, which do not run.
  uint32_t maker(const Value &v) const {
    return v.def && !Graph::isReplaced(v.def) ? v.def.index + 1 : 0;
  }

  void values() {
    const size_t n = g_.numValues();
    auto value = [&](size_t i) -> const Value & { return g_.value(ValueId(uint32_t(i))); };
    llvm::MapVector<llvm::StringRef, uint32_t> types;
    std::vector<std::string> texts; // owns the keys
    texts.reserve(n);
    std::vector<uint32_t> typeOf;
    std::string names;
    facts_["types"] = Json::array();
    for (size_t i = 0; i < n; ++i) {
      texts.push_back(value(i).type.str());
      auto [at, isNew] = types.insert({texts.back(), uint32_t(types.size())});
      if (isNew)
        facts_["types"].push_back(texts.back());
      typeOf.push_back(at->second);
      names += value(i).name;
    }
    to_.plain(name("value.type"), n, [&](size_t i) { return typeOf[i]; });
    to_.delta(name("value.maker"), n, [&](size_t i) { return maker(value(i)); });
    to_.delta(name("value.original"), n,
              [&](size_t i) { return originalValue(g_, ValueId(uint32_t(i))).index; });
    to_.plain(name("value.name"), n, [&](size_t i) { return value(i).name.size(); });
    to_.bytes(name("names"), llvm::StringRef(names));
    facts_["inputs"] = Json::array();
    for (const Input &input : g_.inputs())
      if (facts_["inputs"].size() < kMostInputs)
        facts_["inputs"].push_back({input.value.index, inputKindName(input.kind).str()});
  }

  void modules() {
    const ModuleTree tree = modulesOf(g_);
    facts_["modules"] = Json::array();
    std::vector<uint8_t> isRange;
    for (const Module &m : tree.modules) {
      facts_["modules"].push_back(m.name);
      isRange.push_back(m.isRange);
    }
    to_.delta(name("module.parent"), tree.modules.size(),
              [&](size_t i) { return tree.modules[i].parent; });
    to_.bytes(name("module.is_range"), isRange);
    to_.delta(name("node.module"), g_.numNodes(), [&](size_t i) { return tree.moduleOf[i]; });
  }

  void map() {
    const ArenaMap map = arenaMapOf(t_, kMapColumns, kMapRows);
    facts_["map"] = {{"columns", map.columns}, {"rows", map.rows}};
    to_.bytes(name("map.kind"), map.kind);
    to_.bytes(name("map.filled"), map.filled);
  }

  // A workspace has value 0, and other values are numbered from 1.
  void blocks() {
    facts_["groups"] = Json::array();
    for (const BlockGroup &group : groupBlocks(t_.blocks))
      facts_["groups"].push_back({group.first, group.count, group.longest, group.largest});
    const std::vector<Block> &all = t_.blocks;
    std::vector<uint8_t> kind;
    for (const Block &b : all)
      kind.push_back(uint8_t(b.kind));
    const size_t n = all.size();
    to_.bytes(name("block.kind"), kind);
    to_.delta(name("block.value"), n, [&](size_t i) { return all[i].value.index + 1; });
    to_.delta(name("block.maker"), n, [&](size_t i) { return all[i].maker.index; });
    to_.delta(name("block.offset"), n, [&](size_t i) { return all[i].offset + 1; });
    to_.delta(name("block.bytes"), n, [&](size_t i) { return all[i].bytes; });
    to_.delta(name("block.begin"), n, [&](size_t i) { return all[i].begin; });
    to_.plain(name("block.length"), n, [&](size_t i) { return all[i].end - all[i].begin; });
  }

  void readers() {
    std::vector<uint32_t> all;
    for (const std::vector<uint32_t> &of : t_.readers)
      all.insert(all.end(), of.begin(), of.end());
    to_.plain(name("value.readers"), t_.readers.size(),
              [&](size_t i) { return t_.readers[i].size(); });
    to_.delta(name("readers"), all.size(), [&](size_t i) { return all[i]; });
  }

  static constexpr size_t kMostInputs = 1000; // whose kind is told

  Columns &to_;
  const std::string &prefix_;
  const Graph &g_;
  Timeline t_;
  Json facts_;
};

} // namespace

Json addStep(Columns &columns, const std::string &prefix, const Graph &g, Timeline timeline,
             Detail detail) {
  return StepWriter(columns, prefix, g, std::move(timeline)).run(detail);
}

} // namespace isthmus
