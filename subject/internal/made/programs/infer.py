# SPDX-License-Identifier: Apache-2.0
"""Evaluates a model that boxdyno made, by one of several libraries.

    infer.py LIBRARY PARAMS bench WINDOWS CLASSES BATCH SECONDS LABELS
        prints {"ready": true}, waits for a line, evaluates the windows of a file over
        and over, BATCH at a time, for SECONDS, and prints {"windows", "seconds", "cpu"};
        the labels of a first pass over the file are written to LABELS
    infer.py LIBRARY PARAMS serve
        reads batches: their number of windows (uint32), the windows, and a class for
        each, of which a model that learns takes notice; writes a label for each.
        The first octet that it writes is a dot: it is ready

Windows are rows of float32, labels and classes octets, all in the machine's order.
"""

import json
import os
import struct
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"  # boxdyno starts one process for each CPU


def sklearn(params):
    import numpy as np

    kind = params["model"]
    if kind == "logistic":
        from sklearn.linear_model import LogisticRegression

        m = LogisticRegression()
        m.coef_ = np.array([params["linear"]["weights"]])
        m.intercept_ = np.array([params["linear"]["bias"]])
    elif kind == "mlp":
        from sklearn.neural_network import MLPClassifier
        from sklearn.preprocessing import LabelBinarizer

        m = MLPClassifier(hidden_layer_sizes=[len(l["bias"]) for l in params["layers"][:-1]])
        m.coefs_ = [np.array(l["weights"]).T.copy() for l in params["layers"]]
        m.intercepts_ = [np.array(l["bias"]) for l in params["layers"]]
        m.n_layers_, m.n_outputs_, m.out_activation_ = len(m.coefs_) + 1, 1, "logistic"
        m._label_binarizer = LabelBinarizer().fit([0, 1])
    else:
        trees = [decision_tree(np, t, params["features"]) for t in params["trees"]]
        m = trees[0]
        if kind == "forest":
            from sklearn.ensemble import RandomForestClassifier

            m = RandomForestClassifier(len(trees), n_jobs=1)
            m.estimators_, m.n_outputs_, m.n_classes_ = trees, 1, 2
    m.classes_, m.n_features_in_ = np.array([0, 1]), params["features"]
    return lambda x, _: m.predict(x)


def decision_tree(np, t, features):
    from sklearn.tree import DecisionTreeClassifier
    from sklearn.tree._tree import NODE_DTYPE, Tree

    inner, leaves = len(t["feature"]), len(t["leaves"])
    nodes = np.zeros(inner + leaves, dtype=NODE_DTYPE)
    nodes["left_child"], nodes["right_child"], nodes["feature"], nodes["threshold"] = -1, -1, -2, -2
    first = np.arange(inner) * 2 + 1
    nodes["left_child"][:inner], nodes["right_child"][:inner] = first, first + 1
    nodes["feature"][:inner], nodes["threshold"][:inner] = t["feature"], t["threshold"]
    nodes["n_node_samples"] = nodes["weighted_n_node_samples"] = 1
    values = np.zeros((inner + leaves, 1, 2))
    values[inner:, 0, 1] = t["leaves"]
    values[:, 0, 0] = 1 - values[:, 0, 1]
    tree = Tree(features, np.array([2], dtype=np.intp), 1)
    tree.__setstate__({"max_depth": (inner + 1).bit_length() - 1, "node_count": len(nodes), "nodes": nodes, "values": values})
    m = DecisionTreeClassifier()
    m.tree_, m.n_outputs_, m.n_classes_, m.classes_, m.n_features_in_ = tree, 1, 2, np.array([0, 1]), features
    return m


def onnx(params):
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants = [], []

    def constant(name, values):
        constants.append(numpy_helper.from_array(np.array(values, dtype=np.float32), name))
        return name

    layers = params.get("layers") or []
    if "linear" in params:
        layers = [{"weights": [params["linear"]["weights"]], "bias": [params["linear"]["bias"]]}]
    at = "x"
    for i, l in enumerate(layers):
        w, b = constant("w%d" % i, l["weights"]), constant("b%d" % i, l["bias"])
        nodes.append(helper.make_node("Gemm", [at, w, b], ["s%d" % i], transB=1))
        at = "s%d" % i
        if i < len(layers) - 1:
            nodes.append(helper.make_node("Relu", [at], ["h%d" % i]))
            at = "h%d" % i
    if layers:
        nodes.append(helper.make_node("Sigmoid", [at], ["p"]))
        nodes.append(helper.make_node("Greater", ["p", constant("half", 0.5)], ["above"]))
        nodes.append(helper.make_node("Cast", ["above"], ["label"], to=TensorProto.INT64))
    else:
        nodes.append(onnx_trees(helper, params["trees"]))
        nodes.append(helper.make_node("ArgMax", ["votes"], ["label"], axis=1, keepdims=0))
    graph = helper.make_graph(
        nodes, "detector", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, params["features"]])],
        [helper.make_tensor_value_info("label", TensorProto.INT64, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda x, _: session.run(["label"], {"x": x})[0].ravel()


def onnx_trees(helper, trees):
    a = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    c = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for n, t in enumerate(trees):
        inner = len(t["feature"])
        for i in range(inner + len(t["leaves"])):
            leaf = i >= inner
            row = (n, i, 0, 0.0, "LEAF", 0, 0) if leaf else (n, i, t["feature"][i], t["threshold"][i], "BRANCH_LEQ", 2 * i + 1, 2 * i + 2)
            for k, v in zip(a, row):
                a[k].append(v)
            if leaf:
                p = t["leaves"][i - inner]
                for label, weight in ((0, 1 - p), (1, p)):
                    for k, v in zip(c, (n, i, label, weight)):
                        c[k].append(v)
    attributes = {"nodes_" + k: v for k, v in a.items()}
    attributes.update({"class_" + k: v for k, v in c.items()})
    return helper.make_node("TreeEnsembleClassifier", ["x"], ["decided", "votes"], domain="ai.onnx.ml", classlabels_int64s=[0, 1], post_transform="NONE", **attributes)


def river(params):
    keys = list(range(params["features"]))
    if params["model"] == "hoeffding":
        from river.tree import HoeffdingTreeClassifier

        h = params["hoeffding"]
        m = HoeffdingTreeClassifier(grace_period=h["grace"], delta=h["delta"], tau=h["tie"], max_depth=h["depth"], leaf_prediction="mc")
    else:
        from river.linear_model import LogisticRegression

        m = LogisticRegression(intercept_init=params["linear"]["bias"])
        m._weights.update(dict(zip(keys, params["linear"]["weights"])))
    learns = params["model"] == "hoeffding"

    def evaluate(x, classes):
        labels = []
        for row, y in zip(x.tolist(), classes.tolist()):  # River takes one at a time, as a dict
            row = dict(zip(keys, row))
            labels.append(int(m.predict_one(row) or 0))
            if learns:
                m.learn_one(row, y)
        return labels

    return evaluate


def bench(evaluate, features, windows, classes, batch, seconds, labels):
    import numpy as np

    x = np.fromfile(windows, dtype=np.float32).reshape(-1, features)
    y = np.fromfile(classes, dtype=np.uint8)
    parts = [(x[i:i + batch], y[i:i + batch]) for i in range(0, len(x), batch)]
    first = [np.asarray(evaluate(a, b), dtype=np.uint8) for a, b in parts]
    np.concatenate(first).tofile(labels)
    print(json.dumps({"ready": True}), flush=True)
    if not sys.stdin.readline():
        return
    done, at = 0, 0
    begin, cpu = time.perf_counter(), time.process_time()
    while True:
        a, b = parts[at]
        evaluate(a, b)
        done += len(a)
        at = (at + 1) % len(parts)
        took = time.perf_counter() - begin
        if took >= seconds:
            break
    print(json.dumps({"windows": done, "seconds": took, "cpu": time.process_time() - cpu}), flush=True)


def serve(evaluate, features):
    import numpy as np

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    evaluate(np.zeros((1, features), dtype=np.float32), np.zeros(1, dtype=np.uint8))  # load what is loaded late
    sink.write(b".")
    sink.flush()
    while head := source.read(4):
        n = struct.unpack("I", head)[0]
        x = np.frombuffer(source.read(n * features * 4), dtype=np.float32).reshape(n, features)
        y = np.frombuffer(source.read(n), dtype=np.uint8)
        sink.write(np.asarray(evaluate(x, y), dtype=np.uint8).tobytes())
        sink.flush()


def main():
    library, path, what = sys.argv[1:4]
    with open(path) as f:
        params = json.load(f)
    evaluate = {"sklearn": sklearn, "onnx": onnx, "river": river}[library](params)
    if what == "serve":
        serve(evaluate, params["features"])
    else:
        windows, classes, batch, seconds, labels = sys.argv[4:9]
        bench(evaluate, params["features"], windows, classes, int(batch), float(seconds), labels)


main()
