#include "tools/cli/profile_report.h"

#include "ir/spelling.h"
#include "ir/units.h"
#include "tools/cli/table.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>
#include <numeric>

namespace isthmus {
namespace {

// --- Sums

struct Sum {
  std::string name;
  size_t nodes = 0;
  double seconds = 0, estimated = 0;
  Cost cost;

  void add(const ProfiledStep &p, NodeId id) {
    const OpCall call = p.graph.call(id);
    const Cost c = costOf(call);
    ++nodes;
    seconds += p.nodes[id.index].seconds;
    estimated += p.target.estimatedSeconds(call);
    cost.flops += c.flops;
    cost.bytes += c.bytes;
  }
};

bool isSlower(const Sum &a, const Sum &b) { return a.seconds > b.seconds; }

std::string percentText(double part, double whole) {
  return whole > 0 ? llvm::formatv("{0:F1} %", 100 * part / whole).str() : "-";
}

// In units of 1e9 a second.
std::string rateText(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? llvm::formatv("{0:F1}", 1e-9 * amount / seconds).str() : "-";
}

// --- Text

class Text {
public:
  explicit Text(const ProfiledStep &p) : p_(p) {
    all_.name = "in all";
    for (uint32_t i = 0; i < p.graph.numNodes(); ++i)
      if (NodeId id(i); !p.graph.node(id).op->is(kView))
        add(id);
  }

  std::string run() {
    int64_t peak = 0;
    for (const NodeProfile &n : p_.nodes)
      peak = std::max(peak, n.liveBytes);
    std::string out =
        llvm::formatv("{0} on {1}: {2} a step, node by node (medians of {3}), peak {4}\n", p_.model,
                      p_.target.name, secondsText(all_.seconds), p_.steps, bytesText(peak));
    return out + parts() + ops() + slowest();
  }

private:
  void add(NodeId id) {
    const Node &n = p_.graph.node(id);
    all_.add(p_, id);
    parts_[partOf(n)].add(p_, id);
    Sum &op = ops_[n.op->name];
    op.name = n.op->name;
    op.add(p_, id);
  }

  std::string parts() {
    std::string text;
    for (const auto &[part, sum] : parts_)
      text += (text.empty() ? "  " : ", ") + partName(part).str() + " " +
              percentText(sum.seconds, all_.seconds);
    return text + "\n";
  }

  std::string ops() {
    std::vector<Sum> sums;
    for (const auto &[name, sum] : ops_)
      sums.push_back(sum);
    llvm::stable_sort(sums, isSlower);
    Table t({false, true, true, true, true, true, true});
    t.row({"op", "nodes", "time", "share", "GFLOP/s", "GB/s", "of the estimate"});
    for (const Sum &s : llvm::makeArrayRef(sums).take_front(p_.top))
      t.row(cellsOf(s));
    t.row(cellsOf(all_));
    const size_t shown = std::min(p_.top, sums.size());
    return llvm::formatv("\nOps ({0} of {1}; --top=N)\n", shown, sums.size()).str() + t.text();
  }

  std::vector<std::string> cellsOf(const Sum &s) const {
    return {s.name,
            std::to_string(s.nodes),
            secondsText(s.seconds),
            percentText(s.seconds, all_.seconds),
            rateText(s.cost.flops, s.seconds),
            rateText(s.cost.bytes, s.seconds),
            s.estimated > 0 ? llvm::formatv("{0:F2}", s.seconds / s.estimated).str() : "-"};
  }

  std::string slowest() {
    std::vector<uint32_t> order(p_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(
        order, [&](uint32_t a, uint32_t b) { return p_.nodes[a].seconds > p_.nodes[b].seconds; });
    const size_t shown = std::min(p_.top, order.size());
    Table t({false, false, false, true, true});
    for (uint32_t i : llvm::makeArrayRef(order).take_front(shown)) {
      const Node &n = p_.graph.node(NodeId(i));
      t.row({valueText(p_.graph.nodeName(NodeId(i))), n.op->name,
             n.numResults ? p_.graph.type(n.firstResult).str() : "",
             secondsText(p_.nodes[i].seconds), percentText(p_.nodes[i].seconds, all_.seconds)});
    }
    return llvm::formatv("\nNodes ({0} of {1})\n", shown, order.size()).str() + t.text();
  }

  const ProfiledStep &p_;
  Sum all_;
  std::map<Part, Sum> parts_;
  std::map<std::string, Sum> ops_;
};

} // namespace

std::string profileText(const ProfiledStep &p) { return Text(p).run(); }

} // namespace isthmus
