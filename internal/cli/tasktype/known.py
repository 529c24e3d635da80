"""Prints known.yml: the task types of the archive's packages, by their plugins.

    mkdir packages && cd packages
    pip download --no-deps swh.lister swh.loader.core swh.loader.git swh.deposit swh.vault ...
    for file in *.whl; do unzip -qo "$file"; done; for file in *.tar.gz; do tar xf "$file"; done
    python3 known.py packages >known.yml

It reads entry points and the source of what they name, and runs none of it, so that the packages'
dependencies needn't be there. A package whose set-up wants libraries of C, such as swh.loader.svn,
is fetched by `pip download --no-binary :all:`, or from its repository.
"""

import ast
import configparser
import pathlib
import re
import sys

try:
    import tomllib
except ImportError:
    sys.exit("known.py takes Python 3.11 or later")


def packages(root):
    """Yields (name, version, directory of the source, {plugin: module:function})."""
    for info in sorted(root.glob("*.dist-info")):
        name, version = info.name.removesuffix(".dist-info").rsplit("-", 1)
        entries = configparser.ConfigParser(delimiters="=")
        entries.optionxform = str
        entries.read(info / "entry_points.txt")
        if entries.has_section("swh.workers"):
            yield name.replace("_", "."), version, root, dict(entries["swh.workers"])
    for project in sorted(root.glob("*/pyproject.toml")):
        name, version = project.parent.name.rsplit("-", 1)
        workers = tomllib.loads(project.read_text())["project"].get("entry-points", {}).get("swh.workers")
        if workers:
            yield name.replace("_", "."), version, project.parent, workers


def parse(source, module):
    path = source / module.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return ast.parse(file.read_text())
    sys.exit(f"{module} is not in {source}")


def value(node, names):
    """The value of a node: literals, names, f-strings, "%s" and "+" of these, and timedelta, as seconds."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.JoinedStr():
            return "".join(value(part, names) for part in node.values)
        case ast.FormattedValue():
            return value(node.value, names)
        case ast.BinOp(op=ast.Mod()):
            return value(node.left, names) % value(node.right, names)
        case ast.BinOp(op=ast.Add()):
            return value(node.left, names) + value(node.right, names)
        case ast.List() | ast.Tuple():
            return [value(part, names) for part in node.elts]
        case ast.Dict():
            return {value(k, names): value(v, names) for k, v in zip(node.keys, node.values)}
        case ast.Call(func=ast.Name(id="timedelta")):
            unit = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
            return sum(unit[k.arg] * value(k.value, names) for k in node.keywords)
        case _:
            raise KeyError(ast.dump(node))


def constants(tree, module):
    names = {"__name__": module}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                names[node.targets[0].id] = value(node.value, names)
            except (KeyError, TypeError):
                pass
    return names


def registered(source, entry):
    """The modules of tasks and the settings of task types that an entry point's function returns."""
    module, function = entry.split(":")
    tree = parse(source, module)
    names = constants(tree, module)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for statement in ast.walk(node):
                if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Dict):
                    known = {}
                    for key, part in zip(statement.value.keys, statement.value.values):
                        if key.value in ("task_modules", "task_types"):
                            known[key.value] = value(part, names)
                    return known["task_modules"], known.get("task_types", {})
    sys.exit(f"{entry} returns no dictionary")


def tasks(source, module):
    """Yields (task type, Celery's name) of the tasks of a module that are not private."""
    tree = parse(source, module)
    names = constants(tree, module)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        for decorator in node.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            if not re.fullmatch(r"(shared_task|app\.task)", ast.unparse(call)):
                continue
            given = {k.arg: k.value for k in decorator.keywords} if isinstance(decorator, ast.Call) else {}
            name = value(given["name"], names) if "name" in given else f"{module}.{node.name}"
            yield node.name.replace("_", "-"), name


found = list(packages(pathlib.Path(sys.argv[1])))
made_from = ", ".join(f"{name} {version}" for name, version, _, _ in sorted(found))
print("# Made by known.py from", made_from)
for plugin, source, entry in sorted((p, s, e) for _, _, s, workers in found for p, e in workers.items()):
    print(f"{plugin}:")
    modules, settings = registered(source, entry)
    for task_type, name in sorted({t for module in modules for t in tasks(source, module)}):
        fields = {"backend_name": name, **settings.get(task_type, {})}
        print(f"  {task_type}: {{{', '.join(f'{k}: {v}' for k, v in fields.items())}}}")
