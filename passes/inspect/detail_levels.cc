#include "passes/inspect/detail_levels.h"

#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>
#include <map>

namespace isthmus {

ExtremeLevels extremesOf(llvm::ArrayRef<int64_t> live) {
  ExtremeLevels levels;
  std::vector<int64_t> most(live.begin(), live.end()), least = most;
  while (most.size() > 1) {
    std::vector<uint8_t> &level = levels.emplace_back();
    const size_t entries = llvm::divideCeil(most.size(), 4);
    for (size_t i = 0; i < entries; ++i) {
      const size_t from = 4 * i, to = std::min(from + 4, most.size());
      const auto high = std::max_element(&most[from], &most[from] + (to - from));
      const auto low = std::min_element(&least[from], &least[from] + (to - from));
      level.push_back(uint8_t((high - &most[from]) | (low - &least[from]) << 2));
      // Entries before `from` are read no more, so that the next level may take their place.
      most[i] = *high;
      least[i] = *low;
    }
    most.resize(entries);
    least.resize(entries);
  }
  return levels;
}

static unsigned levelOf(uint64_t size) { return llvm::Log2_64(size) / 2; }

std::vector<BlockGroup> groupBlocks(std::vector<Block> &blocks) {
  std::map<std::pair<unsigned, unsigned>, std::vector<Block>> bySize;
  for (const Block &b : blocks)
    bySize[{levelOf(b.end - b.begin), levelOf(uint64_t(b.bytes))}].push_back(b);
  std::vector<std::vector<Block>> groups;
  for (auto &[size, group] : bySize)
    groups.push_back(std::move(group));
  auto largest = [](const std::vector<Block> &group) {
    return levelOf(group[0].end - group[0].begin) + levelOf(uint64_t(group[0].bytes));
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const auto &a, const auto &b) { return largest(a) > largest(b); });
  std::vector<BlockGroup> out;
  blocks.clear();
  for (std::vector<Block> &group : groups) {
    std::stable_sort(group.begin(), group.end(),
                     [](const Block &a, const Block &b) { return a.begin < b.begin; });
    BlockGroup g{uint32_t(blocks.size()), uint32_t(group.size())};
    for (const Block &b : group) {
      g.longest = std::max(g.longest, b.end - b.begin);
      g.largest = std::max(g.largest, b.bytes);
    }
    out.push_back(g);
    blocks.insert(blocks.end(), group.begin(), group.end());
  }
  return out;
}

namespace {

// Adds up, for each cell, the area that each kind takes.
class MapMaker {
public:
  MapMaker(const Timeline &t, uint32_t columns, uint32_t rows) : t_(t) {
    map_.columns = uint32_t(std::min<uint64_t>(columns, t.live.size()));
    map_.rows = uint32_t(std::min<int64_t>(rows, t.arenaBytes));
    area_.resize(size_t(map_.columns) * map_.rows * kNumBlockKinds);
  }

  ArenaMap run() {
    for (const Block &b : t_.blocks)
      if (b.offset >= 0)
        add(b);
    for (size_t cell = 0; cell < size_t(map_.columns) * map_.rows; ++cell)
      close(cell);
    return std::move(map_);
  }

private:
  void add(const Block &b) {
    const double perColumn = double(map_.columns) / double(t_.live.size()),
                 perRow = double(map_.rows) / double(t_.arenaBytes);
    const double left = b.begin * perColumn, right = b.end * perColumn,
                 low = double(b.offset) * perRow, high = double(b.offset + b.bytes) * perRow;
    for (uint32_t c = uint32_t(left); c < map_.columns && c < right; ++c)
      for (uint32_t r = uint32_t(low); r < map_.rows && r < high; ++r)
        area_[(size_t(c) * map_.rows + r) * kNumBlockKinds + size_t(b.kind)] +=
            float((std::min<double>(c + 1, right) - std::max<double>(c, left)) *
                  (std::min<double>(r + 1, high) - std::max<double>(r, low)));
  }

  void close(size_t cell) {
    const float *const of = &area_[cell * kNumBlockKinds];
    float sum = 0;
    for (size_t k = 0; k < kNumBlockKinds; ++k)
      sum += of[k];
    map_.kind.push_back(uint8_t(std::max_element(of, of + kNumBlockKinds) - of));
    map_.filled.push_back(uint8_t(std::lround(255 * std::min(sum, 1.0f))));
  }

  const Timeline &t_;
  ArenaMap map_;
  std::vector<float> area_; // by cell and kind
};

} // namespace

ArenaMap arenaMapOf(const Timeline &t, uint32_t columns, uint32_t rows) {
  return MapMaker(t, columns, rows).run();
}

} // namespace isthmus
