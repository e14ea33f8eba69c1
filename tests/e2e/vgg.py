"""VGG with batch norm as text: a few huge tensors at the front, which a plan with little memory has to recompute."""

CONVOLUTIONS = {11: [1, 1, 2, 2, 2], 13: [2, 2, 2, 2, 2], 16: [2, 2, 3, 3, 3], 19: [2, 2, 4, 4, 4]}


def vgg_with_batch_norm(depth, batch, size):
    head, body = [f"input %x : f32[{batch}, 3, {size}, {size}]"], []
    channels, last = 3, "%x"
    for stage, (count, width) in enumerate(zip(CONVOLUTIONS[depth], [64, 128, 256, 512, 512])):
        for k in range(count):
            p = f"%s{stage}.{k}"
            head += [f"param {p}.w : f32[{width}, {channels}, 3, 3] = normal {{std = 0.05}}"]
            head += [f"param {p}.{name} : f32[{width}] = fill {{value = {value}}}" for name, value in (("b", 0.0), ("g", 1.0), ("h", 0.0))]
            head += [f"state {p}.{name} : f32[{width}] = fill {{value = {value}}}" for name, value in (("m", 0.0), ("v", 1.0))]
            body += [f"{p}.c = conv({last}, {p}.w, {p}.b) {{pads = [1, 1, 1, 1], strides = [1, 1]}}",
                     f"{p}.n, {p}.bm, {p}.bv = batch_norm({p}.c, {p}.g, {p}.h, {p}.m, {p}.v)",
                     f"{p}.r = relu({p}.n)"]
            last, channels = f"{p}.r", width
        body.append(f"%p{stage} = max_pool({last}) {{kernel = [2, 2], pads = [0, 0, 0, 0], strides = [2, 2]}}")
        last, size = f"%p{stage}", size // 2
    features = channels * size * size
    body.append(f"%flat = reshape({last}) {{dims = [{batch}, {features}]}}")
    last = "%flat"
    for i, width in enumerate([4096, 4096, 1000]):
        head += [f"param %f{i}.w : f32[{features}, {width}] = normal {{std = 0.01}}", f"param %f{i}.b : f32[{width}] = fill {{value = 0.0}}"]
        body += [f"%f{i}.p = matmul({last}, %f{i}.w)", f"%f{i} = add(%f{i}.p, %f{i}.b)"]
        last, features = f"%f{i}", width
        if i < 2:
            body.append(f"%f{i}.r = relu({last})")
            last = f"%f{i}.r"
    return "isthmus 1\ngraph @vgg {\n" + "".join(f"  {line}\n" for line in head + body) + f"  output {last}\n}}\n"
