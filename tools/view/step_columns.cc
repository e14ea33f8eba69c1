#include "tools/view/step_columns.h"

#include "passes/inspect/detail_levels.h"

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

static_assert(kNumLiveKinds == 13 && kNumBlockKinds == 16 && kNumStandIns == 8,
              "page/colours.js and page/modules.js number the kinds: add the new one there");

constexpr uint32_t kMapColumns = 1024, kMapRows = 256;

class StepWriter {
public:
  StepWriter(Columns &columns, const std::string &prefix, StepTable s)
      : to_(columns), prefix_(prefix), s_(std::move(s)), t_(s_.timeline) {}

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
    facts_["nodes"] = t_.live.size();
    facts_["arena_bytes"] = t_.arenaBytes;
    facts_["peak_node"] = t_.peakNode();
    facts_["kinds"] = Json::array();
    for (size_t k = 0; k < kNumBlockKinds; ++k) {
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

  void nodes() {
    facts_["ops"] = Json::array();
    for (const StepTable::OpName &op : s_.ops)
      facts_["ops"].push_back({{"name", op.text}, {"view", op.isView}});
    std::vector<uint8_t> phase, standIn;
    for (const StepTable::StepNode &n : s_.nodes) {
      phase.push_back(uint8_t(n.phase));
      standIn.push_back(uint8_t(n.standIn));
    }
    const size_t count = s_.nodes.size();
    to_.plain(name("node.op"), count, [&](size_t i) { return s_.nodes[i].op; });
    to_.bytes(name("node.phase"), phase);
    to_.bytes(name("node.stand_in"), standIn);
    to_.floats(name("node.us"), t_.us);
    to_.delta(name("node.result"), count, [&](size_t i) { return s_.nodes[i].firstResult; });
    if (s_.sources.empty())
      return;
    facts_["sources"] = s_.sources;
    to_.plain(name("node.source"), count, [&](size_t i) { return s_.nodes[i].source; });
  }

  // Adds lists of numbers as two columns: their lengths, and their entries one after the other.
  void lists(const char *lengths, const char *entries,
             const std::vector<std::vector<uint32_t>> &lists) {
    std::vector<uint32_t> all;
    for (const std::vector<uint32_t> &list : lists)
      all.insert(all.end(), list.begin(), list.end());
    to_.plain(name(lengths), lists.size(), [&](size_t i) { return lists[i].size(); });
    to_.delta(name(entries), all.size(), [&](size_t i) { return all[i]; });
  }
  void operands() { lists("node.operands", "operands", s_.operands); }
  void readers() { lists("value.readers", "readers", t_.readers); }

  void values() {
    const std::vector<StepTable::StepValue> &all = s_.values;
    facts_["types"] = s_.types;
    std::string names;
    for (const StepTable::StepValue &v : all)
      names += v.name;
    to_.plain(name("value.type"), all.size(), [&](size_t i) { return all[i].type; });
    to_.delta(name("value.maker"), all.size(), [&](size_t i) { return all[i].maker; });
    to_.delta(name("value.original"), all.size(), [&](size_t i) { return all[i].original; });
    to_.plain(name("value.name"), all.size(), [&](size_t i) { return all[i].name.size(); });
    to_.bytes(name("names"), llvm::StringRef(names));
    facts_["inputs"] = s_.inputs;
  }

  void modules() {
    const std::vector<Module> &all = s_.modules.modules;
    facts_["modules"] = Json::array();
    std::vector<uint8_t> isRange;
    for (const Module &m : all) {
      facts_["modules"].push_back(m.name);
      isRange.push_back(m.isRange);
    }
    to_.delta(name("module.parent"), all.size(), [&](size_t i) { return all[i].parent; });
    to_.bytes(name("module.is_range"), isRange);
    to_.delta(name("node.module"), s_.nodes.size(),
              [&](size_t i) { return s_.modules.moduleOf[i]; });
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

  Columns &to_;
  const std::string &prefix_;
  StepTable s_;
  Timeline &t_;
  Json facts_;
};

} // namespace

Json addStep(Columns &columns, const std::string &prefix, StepTable step, Detail detail) {
  return StepWriter(columns, prefix, std::move(step)).run(detail);
}

} // namespace isthmus
