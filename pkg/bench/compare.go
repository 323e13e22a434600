package bench

// Comparison is one scenario with two builds of the program, measured in turns.
type Comparison struct {
	Scenario Scenario `json:"scenario"`
	Family   Family   `json:"family"`
	Flows    uint32   `json:"flows"`
	// A and B are ns per packet, without the driver's.
	A float64 `json:"a"`
	B float64 `json:"b"`
	// Ratio is B/A: below 1, B is faster.
	Ratio float64 `json:"ratio"`
}

// Compare measures two builds of the data plane's program, each given by the
// path of its object file, "" for the one that is built in. Within each sample
// they take turns, so that the machine's mood hits both; o.Object is ignored.
func Compare(o Options, a, b string) ([]Comparison, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	cells, err := measure(o, []string{a, b})
	if err != nil {
		return nil, err
	}
	out := make([]Comparison, len(cells))
	for i, c := range cells {
		driver := midmean(c.driver)
		out[i] = Comparison{
			Scenario: c.scenario, Family: c.family, Flows: c.flows,
			A: midmean(c.total[0]) - driver, B: midmean(c.total[1]) - driver,
		}
		out[i].Ratio = out[i].B / out[i].A
	}
	return out, nil
}
