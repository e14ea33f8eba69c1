// The modules of a network, by the prefixes of its nodes' names.
//
// A name is a path: `layer1.0.conv1` and `/layer1/0/conv1` are the node `conv1` in the module
// `layer1.0`. Backward nodes, clones and other stand-ins lie in the module of the value that they
// belong to. A module with very many modules in it is divided into ranges, so that a chain of
// 10,000 layers unfolds step by step too.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct Module {
  static constexpr uint32_t kRoot = 0;
  uint32_t parent = kRoot;
  std::string name; // the part of the path below the parent: "layer1.0"; of a range "fc1 to relu50"
  bool isRange = false;
};

struct ModuleTree {
  static constexpr size_t kMostChildren = 64;
  // A parent comes before its children; children of one parent are in the order of their first
  // forward nodes, and those without any come last. Modules that contain one module and nothing
  // else are joined with it.
  std::vector<Module> modules;
  std::vector<uint32_t> moduleOf; // by node: the innermost module
};

// The name of a node. `leads`: it decides on the order of modules, as forward nodes do.
struct ModulePath {
  llvm::StringRef name;
  bool leads = false;
};

// More than `mostChildren` modules in one are divided into ranges. Each of the characters
// `dividers` divides a name.
ModuleTree modulesOf(llvm::ArrayRef<ModulePath> paths,
                     size_t mostChildren = ModuleTree::kMostChildren,
                     llvm::StringRef dividers = "./");
std::vector<ModulePath> modulePathsOf(const Graph &g); // by node
ModuleTree modulesOf(const Graph &g, size_t mostChildren = ModuleTree::kMostChildren);

// The name by which a node is sorted into modules: that of the value that it belongs to.
llvm::StringRef homeName(const Graph &g, NodeId n);

} // namespace isthmus
