package script

// Pass lets so much time pass: tasks that are ready run, and those that sleep when
// they wake, in that order, until each waits for what is held, or for longer. It is for
// workers that never end.
func (w *World) Pass(d int64) {
	w.tb.Helper()
	for end := w.now + d; ; {
		var next *Task
		for _, t := range w.tasks {
			switch {
			case t.state == taskReady:
				next = t
			case t.state == taskAsleep && t.until <= end && (next == nil || next.state == taskAsleep && t.until < next.until):
				next = t
			}
			if next != nil && next.state == taskReady {
				break
			}
		}
		if next == nil || w.now > end {
			w.now = max(w.now, end)
			return
		}
		w.resume(next)
	}
}
