package serial

// graph is the dependency graph: attempts first, then the helpers of the timeline.
type graph struct {
	nodes, attempts int
	off             []int32 // successors of node v are to[off[v]:off[v+1]]
	to              []int32
	comp            []int32 // strongly connected component of each node; edges never lead to a higher one
	comps           int
}

// build makes the adjacency of those edges that keep approves.
func (g *graph) build(edges []edge, keep func(*edge) bool) {
	g.off = make([]int32, g.nodes+1)
	for i := range edges {
		if keep == nil || keep(&edges[i]) {
			g.off[edges[i].from+1]++
		}
	}
	for v := range g.nodes {
		g.off[v+1] += g.off[v]
	}
	g.to = make([]int32, g.off[g.nodes])
	next := make([]int32, g.nodes)
	copy(next, g.off)
	for i := range edges {
		if keep == nil || keep(&edges[i]) {
			f := edges[i].from
			g.to[next[f]] = edges[i].to
			next[f]++
		}
	}
}

// components is Tarjan's algorithm (SIAM J. Comput. 1(2), 1972) with a stack of its own, since a path in
// a history may be as long as the history. It reports whether any component has more than one node.
func (g *graph) components() bool {
	const unseen = 0
	n := g.nodes
	g.comp = make([]int32, n)
	g.comps = 0
	low := make([]int32, n)   // 0 unseen, else the lowest number reachable
	next := make([]int32, n)  // the next edge to follow
	stack := make([]int32, 0) // nodes whose component is open
	var path []int32
	count := int32(0)
	num := make([]int32, n)
	copy(next, g.off)
	cyclic := false
	for root := range n {
		if num[root] != unseen {
			continue
		}
		path = append(path[:0], int32(root))
		for len(path) > 0 {
			v := path[len(path)-1]
			if num[v] == unseen {
				count++
				num[v], low[v] = count, count
				stack = append(stack, v)
			}
			descend := false
			for next[v] < g.off[v+1] {
				w := g.to[next[v]]
				if num[w] == unseen {
					path = append(path, w)
					descend = true
					break
				}
				next[v]++
				if num[w] > 0 {
					low[v] = min(low[v], low[w])
				}
			}
			if descend {
				continue
			}
			path = path[:len(path)-1]
			if low[v] != num[v] {
				continue
			}
			size := 0
			for {
				w := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				num[w] = -1 // closed
				g.comp[w] = int32(g.comps)
				size++
				if w == v {
					break
				}
			}
			g.comps++
			cyclic = cyclic || size > 1
		}
	}
	return cyclic
}
