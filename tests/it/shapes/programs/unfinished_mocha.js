// A test that passes, beside a timer that is not cleared.
it('ticks', () => {
  setInterval(() => {}, 10_000);
});
