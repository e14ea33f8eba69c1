#include "ir/onnx/names.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {
namespace {

// The names of one graph or function, with the definition of each for messages.
class Names {
public:
  // `around`: for a graph within a node, the enclosing names; else null.
  Names(const NodeList &nodes, Names *around) : nodes_(nodes), around_(around) {}

  llvm::Error define(const std::string &name, const std::string &by) {
    auto [it, isNew] = by_.try_emplace(name, by);
    if (!isNew)
      return makeError("'{0}' is defined twice: by {1} and by {2}", name, it->second, by);
    return llvm::Error::success();
  }

  // `name` must live as long as the model.
  bool has(llvm::StringRef name) {
    if (by_.count(name))
      return true;
    if (!around_ || !around_->has(name))
      return false;
    by_.try_emplace(name, "what is around");
    outside_.insert(name);
    return true;
  }

  llvm::Error read(const std::string &name) {
    if (name.empty() || has(name))
      return llvm::Error::success();
    for (int i = 0; i < nodes_.size(); ++i)
      for (const std::string &out : nodes_[i].output())
        if (out == name)
          return makeError("reads '{0}', which node #{1} defines later; nodes must come in the "
                           "order in which they "
                           "can run, without cycles",
                           name, i);
    return makeError("reads '{0}', which is no input, initializer or result of an earlier node",
                     name);
  }

  // The enclosing names that were read.
  llvm::ArrayRef<llvm::StringRef> outside() const { return outside_.getArrayRef(); }

private:
  const NodeList &nodes_;
  Names *around_;
  llvm::StringMap<std::string> by_;
  llvm::SetVector<llvm::StringRef> outside_;
};

class NameCheck {
public:
  explicit NameCheck(Model &m) : m_(m) {}

  // `place` follows a node in messages: "" or ` in function "Block"`, repeated for nested graphs.
  llvm::Error nodes(const NodeList &list, Names &names, const std::string &place) {
    for (int i = 0; i < list.size(); ++i)
      if (llvm::Error e = node(list[i], i, names, place))
        return e;
    return llvm::Error::success();
  }

  llvm::Error graph(const onnx::GraphProto &g, Names &names, const std::string &place) {
    auto here = [&](llvm::Error e) {
      return locate(std::move(e), place.empty() ? m_.file : m_.file + ": " + place.substr(4));
    };
    llvm::StringSet<> initializers;
    for (const onnx::TensorProto &t : g.initializer()) {
      if (t.name().empty())
        return here(makeError("an initializer has no name"));
      if (llvm::Error e = names.define(t.name(), "an initializer"))
        return here(std::move(e));
      initializers.insert(t.name());
    }
    for (const onnx::SparseTensorProto &t : g.sparse_initializer()) // the importer rejects them
      if (llvm::Error e = names.define(t.values().name(), "a sparse initializer"))
        return here(std::move(e));
    llvm::StringSet<> inputs;
    for (const onnx::ValueInfoProto &v : g.input()) {
      if (v.name().empty())
        return here(makeError("an input has no name"));
      if (!inputs.insert(v.name()).second)
        return here(makeError("'{0}' is defined twice: both times as an input", v.name()));
      // An input with a default value. Files before IR version 4 list weights this way.
      if (initializers.count(v.name()))
        continue;
      if (llvm::Error e = names.define(v.name(), "an input"))
        return here(std::move(e));
    }
    if (llvm::Error e = nodes(g.node(), names, place))
      return e;
    for (const onnx::ValueInfoProto &v : g.output()) {
      if (v.name().empty())
        return here(makeError("an output has no name"));
      if (!names.has(v.name()))
        return here(
            makeError("the output '{0}' is no input, initializer or result of a node", v.name()));
    }
    return llvm::Error::success();
  }

  llvm::Error function(const onnx::FunctionProto &f) {
    Names names(f.node(), nullptr);
    std::string place = " in function \"" + f.name() + "\"";
    auto here = [&](llvm::Error e) {
      return locate(std::move(e), m_.file + ": function \"" + f.name() + "\"");
    };
    for (const std::string &in : f.input())
      if (llvm::Error e = names.define(in, "an input"))
        return here(std::move(e));
    if (llvm::Error e = nodes(f.node(), names, place))
      return e;
    for (const std::string &out : f.output())
      if (!names.has(out))
        return here(makeError("the output '{0}' is no input or result of a node", out));
    return llvm::Error::success();
  }

private:
  llvm::Error node(const onnx::NodeProto &n, int index, Names &names, const std::string &place) {
    auto here = [&](llvm::Error e) {
      return locate(std::move(e), m_.file + ": " + nodeText(n, index) + place);
    };
    for (const std::string &in : n.input())
      if (llvm::Error e = names.read(in))
        return here(std::move(e));
    llvm::SetVector<llvm::StringRef> outside;
    for (const onnx::AttributeProto &a : n.attribute()) {
      auto within = [&](const onnx::GraphProto &g) -> llvm::Error {
        Names inner(g.node(), &names);
        if (llvm::Error e =
                graph(g, inner, " in " + a.name() + " of " + nodeText(n, index) + place))
          return e;
        outside.insert(inner.outside().begin(), inner.outside().end());
        return llvm::Error::success();
      };
      if (a.has_g())
        if (llvm::Error e = within(a.g()))
          return e;
      for (const onnx::GraphProto &g : a.graphs())
        if (llvm::Error e = within(g))
          return e;
    }
    if (!outside.empty())
      m_.outside[&n] = outside.takeVector();
    for (const std::string &out : n.output())
      if (!out.empty())
        if (llvm::Error e = names.define(out, "node #" + std::to_string(index)))
          return here(std::move(e));
    return llvm::Error::success();
  }

  Model &m_;
};

} // namespace

llvm::Error checkNames(Model &m) {
  NameCheck check(m);
  Names names(m.graph().node(), nullptr);
  if (llvm::Error e = check.graph(m.graph(), names, ""))
    return e;
  if (m.graph().output_size() == 0)
    return locate(makeError("the model has no outputs"), m.file);
  for (const onnx::FunctionProto &f : m.proto->functions())
    if (llvm::Error e = check.function(f))
      return e;
  return llvm::Error::success();
}

} // namespace isthmus::onnx_import
