"""Networks of other tools: ONNX files and PyTorch modules become files of layers."""
