package config

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/yaml11"
)

// Route returns the function that finds the queue of tasks without priority by their Celery name. It returns nil if
// the file leaves the Python scheduler's routes unchanged.
func (c *Celery) Route() func(task string) string {
	others := cmp.Or(c.DefaultQueue, model.DefaultQueue)
	switch {
	case c.routed:
		return func(task string) string {
			if r := c.Sending.Route(task); r != nil {
				return cmp.Or(r.Queue, others)
			}
			return others
		}
	case c.DefaultQueue != "":
		return func(task string) string { return model.QueueOf(task, others) }
	}
	return nil
}

// readSerializer reads a serializer that workers of the Python scheduler accept.
func (c *Celery) readSerializer(into *string) func(value) {
	return func(v value) {
		if *into = v.text(); !slices.Contains([]string{celery.JSONSerializer, celery.MsgpackSerializer}, *into) {
			c.refuse(v, "must be json or msgpack: workers accept no other")
		}
	}
}

func (c *Celery) readCompression(into *string) func(value) {
	return func(v value) {
		var known bool
		if *into, known = celery.Compressions[v.text()]; !known {
			c.refuse(v, "must be "+strings.Join(keysOf(celery.Compressions), " or ")+": there is no other compression here")
		}
	}
}

func (c *Celery) readDeliveryMode(into *uint8) func(value) {
	return func(v value) {
		switch v.setting() {
		case "1", "transient":
			*into = 1
		case "2", "persistent":
			*into = 2
		default:
			c.refuse(v, "must be 1, 2, transient or persistent")
		}
	}
}

func (c *Celery) readPriority(smallest int64, set func(int64)) func(value) {
	return func(v value) {
		n, ok := v.scalar().(*big.Int)
		if !ok || !n.IsInt64() || n.Int64() < smallest || n.Int64() > 255 {
			c.refuse(v, fmt.Sprintf("must be a whole number from %d to 255", smallest))
			return
		}
		set(n.Int64())
	}
}

// readQueues reads the names of queues, from which workers consume by default. As in the Python scheduler, each
// queue has a direct exchange of its name, whatever a mapping gives for it.
func (c *Celery) readQueues(v value) {
	c.Sending.Queues = []string{model.DefaultQueue}
	if v.node.Kind == yaml.MappingNode {
		for _, e := range v.entries("a mapping of queues") {
			c.Sending.Queues = append(c.Sending.Queues, e.name)
			if !e.isNull() {
				e.warn("has no effect but its name, as for the Python scheduler, which gives each queue an exchange of that name")
			}
		}
		return
	}
	names := v.node.Kind == yaml.SequenceNode
	for i := range v.node.Content {
		name, ok := v.item(i).scalar().(string)
		names = names && ok
		c.Sending.Queues = append(c.Sending.Queues, name)
	}
	if !names {
		c.refuse(v, "must be a list of names: the Python scheduler reads no other; declare other queues beforehand, as a queue that exists is used as it is")
	}
}

// readRoutes reads task_routes: one router, or a list of them. A router is a mapping of names to routes, or a list
// of pairs. A function is refused.
func (c *Celery) readRoutes(v value) {
	c.routed = true
	switch {
	case v.isNull():
	case v.node.Kind == yaml.SequenceNode:
		for i := range v.node.Content {
			c.readRouter(v.item(i))
		}
	default:
		c.readRouter(v)
	}
}

func (c *Celery) readRouter(v value) {
	var pairs []yaml11.Pair
	switch v.node.Kind {
	case yaml.MappingNode:
		for _, e := range v.entries("a mapping of task names to routes") {
			pairs = append(pairs, yaml11.Pair{Key: e.keyNode, Value: e.node})
		}
	case yaml.SequenceNode:
		for _, pair := range v.node.Content {
			if pair.Kind != yaml.SequenceNode || len(pair.Content) != 2 {
				c.refuse(v, "must be a list of lists of pairs of a task's name and its route")
				return
			}
			pairs = append(pairs, yaml11.Pair{Key: pair.Content[0], Value: pair.Content[1]})
		}
	default:
		c.refuse(v, "can't be given: write a mapping of task names to routes, as functions of Python are not called")
		return
	}
	// Names take precedence over patterns.
	var names, patterns []celery.Route
	for _, p := range pairs {
		key := value{v.reader, p.Key, v.key}
		name, ok := key.scalar().(string)
		task, err := celery.TaskPattern(name)
		if !ok || err != nil {
			c.refuse(key, "must have the names of tasks, or patterns of them, as keys")
			continue
		}
		route := celery.Route{Task: task}
		c.readRoute(value{v.reader, p.Value, v.path(p.Key)}, &route)
		if strings.Contains(name, "*") {
			patterns = append(patterns, route)
		} else {
			names = append(names, route)
		}
	}
	c.Sending.Routes = slices.Concat(c.Sending.Routes, names, patterns)
}

func (c *Celery) readRoute(v value, r *celery.Route) {
	if queue, ok := v.scalar().(string); ok {
		r.Queue = queue
		return
	}
	if v.node.Kind != yaml.MappingNode {
		c.refuse(v, "must be the name of a queue, or a mapping with a key queue")
		return
	}
	direct := true
	v.sectionWith(map[string]func(value){
		"queue":         func(v value) { r.Queue = v.text() },
		"exchange":      func(v value) { r.Exchange = v.text() },
		"routing_key":   func(v value) { r.RoutingKey = v.text() },
		"exchange_type": func(v value) { direct = v.text() == "direct" },
		"serializer":    c.readSerializer(&r.Serializer),
		"compression":   c.readCompression(&r.Compression),
		"delivery_mode": c.readDeliveryMode(&r.DeliveryMode),
		"priority":      c.readPriority(0, func(n int64) { r.Priority = uint8(n) }),
	}, func(e entry) { c.refuse(e.value, "is not supported in a route") })
	switch {
	case r.Exchange != "" && r.RoutingKey != "":
		if r.Queue == "" {
			c.refuse(v, "has an exchange and no queue: write the queue that gets its messages, as its free slots are counted")
		}
	case !direct:
		c.refuse(v, "has an exchange_type: write exchange and routing_key, too")
	default:
		r.Exchange, r.RoutingKey = "", "" // as in Celery, which sends to the queue directly
	}
}
