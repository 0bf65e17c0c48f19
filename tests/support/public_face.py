"""What pasted lines may import of the package: names of `hf_attn` itself, never a path inside."""

import ast

import hf_attn


def find_private_imports(code):
    """Return what the lines take from inside the package, or by a name that `hf_attn` does not have."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("hf_attn.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hf_attn."):
            found.append(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "hf_attn":
            found += [alias.name for alias in node.names if alias.name not in hf_attn.__all__]
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "hf_attn"
        ):
            found += [node.attr] * (node.attr not in hf_attn.__all__)
    return found
