package rpc

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/origins"
)

// typesOf are types of arguments that their kinds don't name.
var typesOf = map[string]string{
	"lister of Any": "Lister", "graph": "Union[dict, str]",
	"ids": "Iterable[Tuple[str, str]]", "page_token of Optional[str]": "Optional[List[str]]", "task_ids of archive": "List[dict]",
}

// typeOf returns a parameter's type as Python writes it.
func typeOf(p parameter) string {
	read := readType(p)
	switch p.holds {
	case reflect.TypeFor[[]origins.VisitQueuePosition]():
		return "Dict[str, int]"
	case reflect.TypeFor[[]archivedKey]():
		return typesOf["task_ids of archive"]
	}
	return cmp.Or(typesOf[p.name], typesOf[p.name+" of "+read], read)
}

func readType(p parameter) string {
	name, holds := p.of.name, p.holds
	list := holds.Kind() == reflect.Slice && holds.Elem().Kind() != reflect.Uint8
	optional := p.of.optional || holds.Kind() == reflect.Pointer || holds == reflect.TypeFor[uuid.NullUUID]() || holds == reflect.TypeFor[time.Time]() && !p.required
	if name == "" {
		switch base := strings.TrimPrefix(strings.TrimPrefix(holds.String(), "*"), "[]"); base {
		case "bool":
			name = "bool"
		case "rpc.none":
			return "None"
		case "rpc.originPage":
			return "PagedResult[ListedOrigin, List[str]]"
		case "rpc.archivePage":
			return "dict"
		case "interface {}":
			return "Any"
		case "model.VisitStatus":
			name, optional = "LastVisitStatus", true
		default:
			name = "dict"
			if holds.Kind() == reflect.String {
				name = "str"
			}
		}
	}
	name = name[strings.LastIndexByte(name, '.')+1:]
	if strings.HasPrefix(p.of.name, "typing.Dict") {
		name = "dict"
	} else if strings.HasPrefix(p.of.name, "typing.List") {
		name = "list"
	}
	if list {
		name = "List[" + name + "]"
	}
	if optional {
		name = "Optional[" + name + "]"
	}
	return name
}

// signed returns a signature as Python writes it, without the module and the name's class.
func signed(s *signature) string {
	var parameters []string
	for _, p := range s.parameters {
		text := p.name + ": " + typeOf(p)
		if !p.required {
			text += " = ..."
		}
		parameters = append(parameters, text)
	}
	return "(" + strings.Join(parameters, ", ") + ")"
}

// docs/reference/rpc.md has all calls with their descriptions in the code, and the classes.
func TestCallsInTheReference(t *testing.T) {
	t.Parallel()
	const page = "../../docs/reference/rpc.md"
	var python, ours, types strings.Builder
	n := 0
	for _, ep := range endpoints {
		b := &ours
		name, theirs := strings.CutPrefix(ep.name, backend)
		if theirs {
			b = &python
			n++
		}
		var who []string
		for i, role := range roleNames {
			switch bit := roles(1 << i); {
			case ep.allowed&bit == 0:
			case bit == daemon && ep.limited:
				of := strings.Join(ep.daemons, ", ")
				if of == "" {
					of = "none with `daemons`"
				}
				who = append(who, "`"+role+"` ("+of+")")
			case ep.scoped&bit != 0:
				who = append(who, "`"+role+"` (its own)")
			default:
				who = append(who, "`"+role+"`")
			}
		}
		fmt.Fprintf(b, "\n### %s\n\n%s\n\n```python\n%s%s -> %s\n```\n\nRoles: %s.\n", ep.path, ep.description, name, signed(ep.takes), typeOf(ep.returns), strings.Join(who, ", "))
	}
	if n != 34 {
		t.Errorf("%d calls of the Python scheduler", n)
	}
	for _, s := range constructors {
		fmt.Fprintf(&types, "\n### %s\n\n```python\n%s(\n", strings.TrimSuffix(s.name, ".__init__"), strings.TrimSuffix(s.name, ".__init__"))
		for _, p := range s.parameters {
			text := "    " + p.name + ": " + typeOf(p)
			if !p.required {
				text += " = ..."
			}
			types.WriteString(text + ",\n")
		}
		types.WriteString(")\n```\n")
	}
	testenv.Generated(t, page, "python-calls", python.String()+"\n")
	testenv.Generated(t, page, "own-calls", ours.String()+"\n")
	testenv.Generated(t, page, "classes", types.String()+"\n")
}
