#include "passes/inspect/module_tree.h"

#include "ir/provenance.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

namespace isthmus {
namespace {

// A tree of the parts of names. Each node of the graph is a member of the entry of its whole name.
struct Entry {
  std::string name;
  std::vector<uint32_t> children, members;
  bool isRange = false;
};

class TreeMaker {
public:
  TreeMaker(llvm::ArrayRef<ModulePath> paths, size_t mostChildren, llvm::StringRef dividers)
      : paths_(paths), mostChildren_(mostChildren), dividers_(dividers), entries_(1) {}

  ModuleTree run() {
    for (const ModulePath &p : paths_)
      if (p.leads)
        entryOf(p.name);
    for (uint32_t i = 0; i < paths_.size(); ++i)
      entries_[entryOf(paths_[i].name)].members.push_back(i);
    for (uint32_t e = 0; e < entries_.size(); ++e) // grows by the ranges
      divide(e);
    tree_.moduleOf.resize(paths_.size());
    tree_.modules.emplace_back();
    emit(0, 0);
    return std::move(tree_);
  }

private:
  static constexpr unsigned kMostParts = 32; // the last one takes what is left of the name

  // The part behind the last divider is the entry of the node.
  uint32_t entryOf(llvm::StringRef name) {
    uint32_t at = 0;
    for (unsigned parts = 1; !name.empty(); ++parts) {
      const llvm::StringRef part =
          name.take_until([&](char c) { return parts < kMostParts && dividers_.contains(c); });
      name = name.drop_front(std::min(name.size(), part.size() + 1));
      if (!part.empty())
        at = child(at, part);
    }
    return at;
  }

  uint32_t child(uint32_t parent, llvm::StringRef name) {
    auto [at, isNew] =
        byName_.try_emplace((llvm::Twine(parent) + "/" + name).str(), uint32_t(entries_.size()));
    if (isNew) {
      entries_.push_back({name.str(), {}, {}});
      entries_[parent].children.push_back(at->second);
    }
    return at->second;
  }

  // Puts many children into ranges of equal length, as many as are shown at once.
  void divide(uint32_t e) {
    const std::vector<uint32_t> all = entries_[e].children;
    if (all.size() <= mostChildren_)
      return;
    size_t each = mostChildren_;
    while (llvm::divideCeil(all.size(), each) > mostChildren_)
      each *= mostChildren_;
    std::vector<uint32_t> ranges;
    for (size_t from = 0; from < all.size(); from += each) {
      const size_t to = std::min(from + each, all.size());
      if (to == from + 1) {
        ranges.push_back(all[from]);
        continue;
      }
      ranges.push_back(uint32_t(entries_.size()));
      entries_.push_back({entries_[all[from]].name + " to " + entries_[all[to - 1]].name,
                          std::vector(all.begin() + long(from), all.begin() + long(to)),
                          {},
                          /*isRange=*/true});
    }
    entries_[e].children = std::move(ranges);
  }

  // Adds what lies in entry `e` to the module `module`.
  void emit(uint32_t e, uint32_t module) {
    for (uint32_t n : entries_[e].members)
      tree_.moduleOf[n] = module;
    for (uint32_t c : entries_[e].children) {
      std::string name = entries_[c].name;
      const bool isRange = entries_[c].isRange;
      while (entries_[c].members.empty() && entries_[c].children.size() == 1) {
        c = entries_[c].children[0];
        name += "." + entries_[c].name;
      }
      const uint32_t own = uint32_t(tree_.modules.size());
      tree_.modules.push_back({module, name, isRange});
      emit(c, own);
    }
  }

  const llvm::ArrayRef<ModulePath> paths_;
  const size_t mostChildren_;
  const llvm::StringRef dividers_;
  std::vector<Entry> entries_;
  llvm::StringMap<uint32_t> byName_; // by the parent's number and the part
  ModuleTree tree_;
};

} // namespace

llvm::StringRef homeName(const Graph &g, NodeId id) {
  while (g.node(id).isClone())
    id = g.node(id).from.origin;
  const Node &n = g.node(id);
  const ValueId v = n.isRestoring() ? originalValue(g, n.firstResult) : n.firstResult;
  const NodeId maker = g.value(v).def;
  llvm::StringRef name = g.valueName(v);
  if (maker && g.node(maker).phase == Phase::Backward) // as differentiation names its nodes
    name.consume_front("d.");
  return name;
}

ModuleTree modulesOf(llvm::ArrayRef<ModulePath> paths, size_t mostChildren,
                     llvm::StringRef dividers) {
  return TreeMaker(paths, mostChildren, dividers).run();
}

// Forward nodes decide the order, wherever a plan has put what belongs to them.
std::vector<ModulePath> modulePathsOf(const Graph &g) {
  std::vector<ValueId> gradientOf(g.numValues()); // what an output is the gradient or next state of
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.role(i).kind != OutputKind::Result)
      gradientOf[g.outputs()[i].index] = g.role(i).of;
  std::vector<ModulePath> paths;
  paths.reserve(g.numNodes());
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const ValueId of = gradientOf[n.firstResult.index];
    paths.push_back({of ? g.valueName(of) : homeName(g, NodeId(i)),
                     n.phase == Phase::Forward && !n.isStandIn()});
  }
  return paths;
}

ModuleTree modulesOf(const Graph &g, size_t mostChildren) {
  return modulesOf(modulePathsOf(g), mostChildren);
}

} // namespace isthmus
